--- Resolves `@fig-x` and its like, checks citations, and treats links to values and downloads.

local downloads = require("filter.downloads")
local files = require("filter.files")
local problems = require("filter.problems")
local references = {}

local names = { fig = "Figure", tbl = "Table", eq = "Equation", sec = "Section" }

local function cross_reference_id(id)
  local kind = id:match("^(%a+)%-")
  if kind and names[kind:lower()] then
    return kind:lower() .. id:sub(#kind + 1)
  end
end

local function reference(citation, targets, writer)
  local id = cross_reference_id(citation.id)
  local target = targets[id]
  if not target then
    problems.add("@" .. citation.id, "@" .. citation.id .. " refers to nothing; define #" .. id
      .. (id:match("^sec") and " at a numbered heading" or "") .. " or fix the reference")
    return pandoc.Inlines({ pandoc.Str("?") })
  end
  local name = citation.mode ~= "SuppressAuthor" and names[target.kind] or nil
  local inlines = pandoc.Inlines({})
  if #citation.prefix > 0 then
    inlines:extend(citation.prefix)
    inlines:insert(pandoc.Space())
  end
  inlines:extend(writer.reference(target, name))
  inlines:extend(citation.suffix)
  return inlines
end

--- "A", "A and B", "A, B and C".
local function enumerate(items)
  local inlines = pandoc.Inlines({})
  for i, item in ipairs(items) do
    if i > 1 and i == #items then
      inlines:extend({ pandoc.Space(), pandoc.Str("and"), pandoc.Space() })
    elseif i > 1 then
      inlines:extend({ pandoc.Str(","), pandoc.Space() })
    end
    inlines:extend(item)
  end
  return inlines
end

local function family(author)
  return author.family or author.literal or author.given or "?"
end

local function author_names(entry)
  local authors = entry.author or entry.editor or {}
  if #authors == 0 then
    return pandoc.utils.stringify(entry.title or entry.id)
  elseif #authors == 1 then
    return family(authors[1])
  elseif #authors == 2 then
    return family(authors[1]) .. " and " .. family(authors[2])
  end
  return family(authors[1]) .. " et al."
end

--- A numeric style has no form for `@key` in the text, so the names are written here and all
--- formats read the same: "Williams et al. [3]".
local function citation(cite, entries, writer)
  local inlines = pandoc.Inlines({})
  local items = cite.citations
  for _, item in ipairs(items) do
    if not entries[item.id] then
      problems.add("@" .. item.id, "@" .. item.id
        .. " is not in the bibliography; add the entry or fix the key")
    elseif item.mode == "AuthorInText" then
      inlines:insert(pandoc.Str(author_names(entries[item.id])))
      inlines:insert(pandoc.Str("\u{a0}"))
      item.mode = "NormalCitation"
    end
  end
  cite = pandoc.Cite(cite.content, items)
  inlines:extend(writer.cite and writer.cite(cite) or { cite })
  return inlines
end

local function resolve(cite, targets, entries, writer)
  local cross = 0
  for _, item in ipairs(cite.citations) do
    cross = cross + (cross_reference_id(item.id) and 1 or 0)
  end
  if cross == 0 then
    return citation(cite, entries, writer)
  elseif cross < #cite.citations then
    problems.add("@" .. cite.citations[1].id,
      "a bracket mixes citations and cross references; write them apart")
    return nil
  end
  return enumerate(cite.citations:map(function(item)
    return reference(item, targets, writer)
  end))
end

--- The entries of bibliographies by their key; most formats have the same bibliography.
local known = {}
local function entries_of(file)
  local text = files.content(file)
  if not known[text] then
    known[text] = {}
    -- pandoc returns only entries that a document names.
    local all = pandoc.Pandoc({}, { bibliography = file, nocite = pandoc.Inlines({ pandoc.Cite({},
      { pandoc.Citation("*", "NormalCitation") }) }) })
    for _, entry in ipairs(pandoc.utils.references(all)) do
      known[text][entry.id] = entry
    end
  end
  return known[text]
end

--- `targets` from floats.collect, `bibliography`: the name of the file.
function references.filter(targets, bibliography, writer)
  local entries = entries_of(bibliography)
  return {
    Cite = function(cite)
      return resolve(cite, targets, entries, writer)
    end,
    Link = function(link)
      -- The list that values link to is on the page only; elsewhere they are plain text.
      if link.classes:includes("value") then
        return not writer.links_values and link.content or nil
      end
      return downloads.written(link, writer)
    end,
  }
end

return references
