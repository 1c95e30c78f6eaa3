--- Writes one Quarto markdown document in every requested format, and pieces of markdown in
--- plain words, in one process: `pandoc lua` runs this file, reads the job as JSON from the standard
--- input and writes what it made as JSON (report/render/pandoc.py says what is in both).
---
--- The order of the passes is the design: what a format does not show goes first, so that the
--- numbers are the same in every format; references are resolved when all numbers are known. Each
--- pass visits every element once; nothing is repeated until it settles.

local here = pandoc.path.directory(arg[0])
package.path = pandoc.path.join({ here, "?.lua" }) .. ";" .. package.path

local abbreviations = require("filter.abbreviations")
local callouts = require("filter.callouts")
local checks = require("filter.checks")
local files = require("filter.files")
local floats = require("filter.floats")
local metadata = require("filter.metadata")
local problems = require("filter.problems")
local provenance = require("filter.provenance")
local references = require("filter.references")
local visibility = require("filter.visibility")

local READ_AS = "markdown"
local READING = { standalone = true, abbreviations = abbreviations }

--- What was parsed, by its text: formats whose texts are the same share it.
local parsed = {}
local function parse(text)
  if not parsed[text] then
    checks.source(text)
    parsed[text] = pandoc.read(text, READ_AS, READING)
    checks.document(parsed[text], text)
  end
  return parsed[text]
end

--- The document with everything in it that the writer of pandoc does not know.
local function filtered(doc, bibliography, writer)
  doc = doc:walk(callouts.filter(writer))
  local found = floats.collect(doc, writer)
  doc = found.doc:walk(references.filter(found.targets, bibliography, writer))
  doc = writer.finish(metadata.add(doc, writer))
  problems.stop()
  return doc
end

local function written(output)
  local format = output.to:match("^%a+")
  local text, rows = provenance.cut(files.content(output.document))
  local doc = visibility.only_shown(parse(text), text, format)
  doc.meta.bibliography = output.bibliography
  local writer = require("filter." .. format)
  doc = filtered(doc, output.bibliography, writer)
  if output.cites then
    doc.meta.csl = output.csl
    doc.meta["link-citations"] = true
    doc = pandoc.utils.citeproc(doc)
    doc = writer.in_references and doc:walk(writer.in_references) or doc
  end
  local options = output.options
  if format == "docx" then
    -- pandoc reads this once more when the figures are drawn, which a Word document holds; what it
    -- needed for citations would become properties of the file.
    doc.meta.bibliography, doc.meta.csl, doc.meta["link-citations"] = nil, nil, nil
    return pandoc.write(doc, "json", options)
  end
  options.template = pandoc.template.compile(files.content(output.template), output.template)
  options.variables = output.variables
  local made = pandoc.write(doc, output.to, options)
  return rows and provenance.completed(made, rows) or made
end

local function plain(markdown)
  return pandoc.write(pandoc.read(markdown, READ_AS, READING), "plain", { wrap_text = "none" })
end

local job = pandoc.json.decode(io.read("a"), false)
local made = {
  formats = pandoc.List(job.formats):map(written),
  plain = pandoc.List(job.plain):map(plain),
}
io.write(pandoc.json.encode(made))
