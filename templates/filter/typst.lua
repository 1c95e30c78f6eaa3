--- Writes the parts of a paper for Typst: native figures, equations and labels, so that the PDF is
--- tagged; every image and formula carries alternative text.

local bibliography = require("filter.bibliography")
local files = require("filter.files")
local heads = require("filter.heads")
local numbers = require("filter.numbers")
local words = require("filter.words")
local typst = { has_pages = true }

local function raw(text)
  return pandoc.RawInline("typst", text)
end

--- A Typst string literal.
local function quote(text)
  return '"' .. text:gsub("%s+", " "):gsub("\\", "\\\\"):gsub('"', '\\"') .. '"'
end

--- A line may break here; Typst ignores a space of no width.
local place = raw("#h(0.01pt);")

--- SVG, since Typst cannot embed PDF figures into an accessible PDF (PDF/UA-1).
local function image(part)
  return "image(" .. quote(files.outlined(part.src)) .. ", alt: " .. quote(part.alt) .. ")"
end

--- `open [inlines] close` as inlines, with the content in square brackets.
local function bracketed(open, inlines, close)
  local result = pandoc.Inlines({ raw(open .. "[") })
  result:extend(inlines)
  result:insert(raw("]" .. close))
  return result
end

local function caption(float)
  return bracketed("", float.caption, "")
end

--- `#figure(...)` with the arguments that figures and tables share, around `body` (inlines).
local function figure(float, kind, body)
  local placement = (float.long or float.here) and "none" or "auto"
  local scope = float.spans and ', scope: "parent"' or ""
  local inlines = pandoc.Inlines({ raw((float.long and "#over-pages[" or "") .. "#figure(placement: "
    .. placement .. scope .. ", kind: " .. kind .. ", caption: ") })
  inlines:extend(caption(float))
  inlines:insert(raw(",\n"))
  inlines:extend(body)
  inlines:insert(raw(") <" .. float.id .. ">" .. (float.long and "]" or "")))
  return pandoc.Para(inlines)
end

local function subfigures(float)
  local inlines = pandoc.Inlines({ raw("subfigures(" .. float.columns .. ",\n") })
  for _, part in ipairs(float.parts) do
    local label = part.id ~= "" and "<" .. part.id .. ">" or "none"
    inlines:extend(bracketed("(" .. image(part) .. ', "(' .. part.letter .. ')", ' .. label .. ", ",
      part.caption, "),\n"))
  end
  inlines:insert(raw(")"))
  return inlines
end

function typst.figure(float)
  if float.parts[1] and float.parts[1].letter then
    return figure(float, "image", subfigures(float))
  end
  return figure(float, "image", { raw(float.parts[1] and image(float.parts[1]) or "[]") })
end

local alignments = {
  AlignLeft = "left",
  AlignDefault = "left",
  AlignCenter = "center",
  AlignRight = "right",
}

local before_cell, after_cell, after_row = raw("["), raw("], "), raw("\n")

local function extend_cells(inlines, row)
  for _, cell in ipairs(row.cells) do
    inlines:insert(before_cell)
    inlines:extend(words.in_cells(pandoc.utils.blocks_to_inlines(cell.contents), place))
    inlines:insert(after_cell)
  end
  inlines:insert(after_row)
end

--- A rule in the foot is repeated where a table breaks; a foot must have a cell.
local function foot(columns)
  return "table.footer(table.hline(stroke: 0.8pt), table.cell(colspan: " .. columns
    .. ", inset: 0pt)[])"
end

--- A table with a rule above, below and under the head.
local function table_call(tbl, long, columns)
  local align = tbl.colspecs:map(function(spec)
    return alignments[spec[1]] or "left"
  end)
  local inlines = pandoc.Inlines({
    raw("table(columns: " .. (columns or #align) .. ", align: (" .. table.concat(align, ", ") .. ",), "
      .. "table.hline(stroke: 0.8pt),\n"),
  })
  if #tbl.head.rows > 0 then
    inlines:insert(raw("table.header("))
    for _, row in ipairs(tbl.head.rows) do
      extend_cells(inlines, row)
    end
    inlines:insert(raw("),\ntable.hline(stroke: 0.5pt),\n"))
  end
  for _, body in ipairs(tbl.bodies) do
    for _, row in ipairs(body.body) do
      extend_cells(inlines, row)
    end
  end
  inlines:insert(raw((long and foot(#align) or "table.hline(stroke: 0.8pt)") .. ")"))
  return inlines
end

function typst.table(float)
  local inlines = pandoc.Inlines({ raw((float.long and "long-table" or "noted-table") .. "(") })
  local columns = heads.columns(float.table, float.line)
  inlines:extend(table_call(heads.fit(float.table, float.line), float.long, columns))
  if #float.notes > 0 then
    local notes = pandoc.utils.blocks_to_inlines(float.notes, { pandoc.LineBreak() })
    inlines:extend(bracketed(", notes: ", notes, ""))
  end
  inlines:insert(raw(")"))
  return figure(float, "table", inlines)
end

function typst.bare_table(tbl)
  local inlines = pandoc.Inlines({ raw("#align(center, ") })
  inlines:extend(table_call(tbl))
  inlines:insert(raw(")"))
  return pandoc.Para(inlines)
end

--- The body of a formula as Typst mathematics, between its dollar signs.
local function formula(tex_source, mathtype)
  local math = pandoc.Math(mathtype, numbers.whole(tex_source))
  local doc = pandoc.Pandoc({ pandoc.Plain({ math }) })
  return (pandoc.write(doc, "typst", { wrap_text = "none" }):gsub("%s+$", ""))
end

--- The TeX source is the alternative text: it is how formulas are read aloud and searched for.
local function alternative(tex_source)
  return quote((tex_source:gsub("^%s+", ""):gsub("%s+$", "")))
end

local function equation(piece)
  return raw('\n#math.equation(block: true, numbering: "(1)", alt: ' .. alternative(piece.tex)
    .. ", " .. formula(piece.tex, "DisplayMath") .. ") <" .. piece.id .. ">\n")
end

function typst.equations(pieces)
  local inlines = pandoc.Inlines({})
  for _, piece in ipairs(pieces) do
    if piece.id then
      inlines:insert(equation(piece))
    else
      inlines:extend(piece.text)
    end
  end
  return pandoc.Para(inlines)
end

function typst.heading(header)
  return header
end

--- It follows the references on their page.
function typst.supplement(header, two_columns)
  return { pandoc.RawBlock("typst", two_columns and "#show: supplement" or "#v(1em)"), header }
end

--- The closing semicolon keeps what follows in the text from being read as code.
function typst.reference(target, name)
  if target.part then
    return { raw("#link(<" .. target.id .. ">)[" .. (name and name .. "~" or "")
      .. target.number .. "];") }
  end
  return { raw("#ref(<" .. target.id .. ">" .. (name and "" or ", supplement: none") .. ");") }
end

function typst.callout(kind, title, body)
  local head = bracketed('#callout("' .. kind .. '", ', title, ")[")
  local blocks = pandoc.Blocks({ pandoc.Plain(head) })
  blocks:extend(body)
  blocks:insert(pandoc.RawBlock("typst", "]"))
  return blocks
end

local function math(element)
  local block = element.mathtype == "DisplayMath" and "true" or "false"
  return raw("#math.equation(block: " .. block .. ", numbering: none, alt: "
    .. alternative(element.text) .. ", " .. formula(element.text, element.mathtype) .. ");")
end

local function inline_image(element)
  return raw("#" .. image({ src = element.src, alt = element.attributes["fig-alt"] or "" }) .. ";")
end

function typst.plain(text)
  return pandoc.MetaInlines({ raw(quote(text)) })
end

--- A Typst array of strings.
function typst.plain_list(texts)
  local literals = {}
  for i, text in ipairs(texts) do
    literals[i] = quote(text) .. ", "
  end
  return pandoc.MetaInlines({ raw("(" .. table.concat(literals) .. ")") })
end

--- Titles in the list of references hold formulas too.
typst.in_references = { Math = math }

function typst.finish(doc)
  doc = words.in_text(bibliography.with_heading(doc), place)
  return doc:walk({ Math = math, Image = inline_image, CodeBlock = words.in_code })
end

return typst
