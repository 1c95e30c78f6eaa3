--- The same job as templates/ridgepoint.lua reads, done without the filter: each edition is parsed, gets
--- its citations and is written. References and floats stay as they are, of which pandoc warns.

local function content(path)
  local stream = assert(io.open(path, "r"))
  local text = stream:read("a")
  stream:close()
  return text
end

for _, edition in ipairs(pandoc.json.decode(io.read("a"), false).editions) do
  local doc = pandoc.read(content(edition.document), "markdown", { standalone = true })
  doc.meta.bibliography = edition.bibliography
  if edition.cites then
    doc.meta.csl = edition.csl
    doc = pandoc.utils.citeproc(doc)
  end
  edition.options.template = pandoc.template.compile(content(edition.template), edition.template)
  edition.options.variables = edition.variables
  io.write(pandoc.write(doc, edition.to, edition.options))
end
