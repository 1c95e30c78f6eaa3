--- The filter that turns one Quarto markdown document into what pandoc needs for HTML, LaTeX and
--- Typst. The order of its passes is the design: what a format does not show goes first, so that
--- the numbers are the same in every format; references are resolved when all numbers are known.
--- Each pass visits every element once; nothing is repeated until it settles.

local here = pandoc.path.directory(PANDOC_SCRIPT_FILE)
package.path = pandoc.path.join({ here, "?.lua" }) .. ";" .. package.path

local callouts = require("filter.callouts")
local downloads = require("filter.downloads")
local floats = require("filter.floats")
local metadata = require("filter.metadata")
local problems = require("filter.problems")
local references = require("filter.references")
local visibility = require("filter.visibility")
local writer = require("filter." .. (FORMAT:match("^html") and "html" or FORMAT))

function Pandoc(doc)
  doc = doc:walk(visibility.filter(FORMAT))
  problems.check_formulas(doc)
  doc = doc:walk(callouts.filter(writer))
  doc = doc:walk(downloads.filter(writer))
  local found = floats.collect(doc, writer)
  doc = found.doc:walk(references.filter(found.targets, pandoc.utils.references(doc), writer))
  problems.check_links(doc, FORMAT)
  doc = writer.finish(metadata.add(doc, writer))
  problems.stop()
  return doc
end
