--- Plain forms of the front matter, for the properties of a PDF and the head of a page.

local metadata = {}

local function plain_words(list)
  return pandoc.List(list or {}):map(function(each)
    return pandoc.utils.stringify(each)
  end)
end

--- The authors with what each says of itself, as the writer's kind of plain text.
local function each_author(authors, writer)
  return pandoc.List(authors or {}):map(function(author)
    local plain = {}
    for _, key in ipairs({ "name", "affiliation", "orcid" }) do
      plain[key] = author[key] and writer.plain(pandoc.utils.stringify(author[key]))
    end
    return plain
  end)
end

--- How to reach an author, and the part of the author in the paper.
local function contact(author)
  local parts = pandoc.List()
  if author.email then
    local address = pandoc.utils.stringify(author.email)
    parts:extend({ pandoc.Str(", "), pandoc.Link(address, "mailto:" .. address) })
  end
  for _, role in ipairs({ "corresponding", "equal-contribution" }) do
    if author[role] then
      local words = role == "corresponding" and "corresponding author" or "equal contribution"
      parts:extend({ pandoc.Str(", "), pandoc.Str(words) })
    end
  end
  return #parts > 0 and pandoc.MetaInlines(pandoc.Inlines({ table.unpack(parts, 2) })) or nil
end

--- The first sentences of the abstract, up to the length that search engines show.
local function description(abstract)
  if pandoc.utils.type(abstract) == "Blocks" then
    abstract = pandoc.utils.blocks_to_inlines(abstract, { pandoc.Space() })
  end
  local text = pandoc.utils.stringify(abstract or ""):gsub("%s+", " ")
  local short = text:sub(1, 240)
  return #text <= 240 and text or short:match("^(.*[.!?])%s") or short:match("^(.*)%s") .. " …"
end

--- Adds the title, the authors, the keywords and a `description` as the writer's kind of plain text.
function metadata.add(doc, writer)
  local meta = doc.meta
  meta["plain-title"] = writer.plain(pandoc.utils.stringify(meta.title or ""))
  meta["plain-authors"] = writer.plain_list(pandoc.List(meta.author or {}):map(function(author)
    return pandoc.utils.stringify(author.name or author)
  end))
  for _, author in ipairs(meta.author or {}) do
    author.contact = contact(author)
  end
  meta["each-author"] = each_author(meta.author, writer)
  meta["plain-keywords"] = writer.plain_list(plain_words(meta.keywords))
  meta.description = pandoc.MetaInlines({ pandoc.Str(description(meta.abstract)) })
  return doc
end

return metadata
