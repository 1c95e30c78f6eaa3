--- Plain forms of the front matter, for the properties of a PDF and the head of a page.

local metadata = {}

local function plain_authors(meta)
  local names = {}
  for _, author in ipairs(meta.author or {}) do
    names[#names + 1] = pandoc.utils.stringify(author.name or author)
  end
  return names
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

--- Adds `plain-title`, `plain-authors`, `each-author` and `description` as the writer's kind of plain text.
function metadata.add(doc, writer)
  local meta = doc.meta
  local title = pandoc.utils.stringify(meta.title or "")
  meta["plain-title"] = writer.plain(title)
  local authors = plain_authors(meta)
  meta["plain-authors"] = writer.plain_list(authors)
  meta["each-author"] = pandoc.List(authors):map(writer.plain)
  meta.description = pandoc.MetaInlines({ pandoc.Str(description(meta.abstract)) })
  return doc
end

return metadata
