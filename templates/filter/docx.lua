--- Writes the parts of a paper for Word: captions with their numbers, references as links inside the
--- document, formulas that Word can edit.

local bibliography = require("filter.bibliography")
local files = require("filter.files")
local html = require("filter.html")
local numbers = require("filter.numbers")
local tabular = require("filter.tabular")
local words = require("filter.words")
local docx = {
  heading = html.heading,
  plain = html.plain,
  plain_list = html.plain_list,
  reference = html.reference,
}

--- Characters of a table's type in a line of text, and of the narrowest column.
local line, narrowest = 84, 12

local function with_widths(tbl)
  local widths, total = tabular.column_widths(tbl, narrowest), 0
  for _, width in ipairs(widths) do
    total = total + width
  end
  for i, spec in ipairs(tbl.colspecs) do
    spec[2] = widths[i] / math.max(total, line)
  end
  return tbl
end

--- A paragraph in a style of Word's.
local function styled(style, inlines)
  return pandoc.Div({ pandoc.Para(inlines) }, { ["custom-style"] = style })
end

local function labelled(label, inlines)
  local result = pandoc.Inlines({ pandoc.Strong({ pandoc.Str(label) }), pandoc.Space() })
  result:extend(inlines)
  return result
end

local function image(part)
  return pandoc.Image({}, part.src, "", { ["fig-alt"] = part.alt })
end

function docx.figure(float)
  local blocks = pandoc.Blocks({})
  for _, part in ipairs(float.parts) do
    local picture = pandoc.Blocks({ styled("Captioned Figure", { image(part) }) })
    if part.letter then
      picture:insert(styled("Image Caption", labelled("(" .. part.letter .. ")", part.caption)))
    end
    blocks:insert(pandoc.Div(picture, { id = part.id }))
  end
  local label = "Figure " .. float.number .. "."
  blocks:insert(styled("Image Caption", labelled(label, float.caption)))
  return pandoc.Div(blocks, { id = float.id })
end

function docx.table(float)
  local tbl = with_widths(float.table)
  local label = "Table " .. float.number .. "."
  tbl.caption = { long = { pandoc.Plain(labelled(label, float.caption)) } }
  local blocks = pandoc.Blocks({ tbl })
  blocks:extend(float.notes)
  return pandoc.Div(blocks, { id = float.id })
end

docx.bare_table = with_widths

local function equation(piece)
  local tex = piece.tex:gsub("%s+$", "") .. "\\qquad(" .. piece.number .. ")"
  return pandoc.Div({ pandoc.Para({ pandoc.Math("DisplayMath", tex) }) }, { id = piece.id })
end

function docx.equations(pieces)
  return words.around(pieces, equation)
end

function docx.callout(_, title, body)
  local blocks = pandoc.Blocks({ pandoc.Para({ pandoc.Strong(title) }) })
  blocks:extend(body)
  return pandoc.BlockQuote(blocks)
end

--- The PNG of a figure that is drawn will lie beside its SVG.
local function with_file(element)
  local drawn = element.src:match("^figures/")
  element.src = files.image(element.src, drawn and "svg" or "png"):gsub("%.svg$", ".png")
  element.caption = pandoc.Inlines(element.attributes["fig-alt"] or element.caption)
  element.attributes["fig-alt"] = nil
  return element
end

local function author_line(author)
  local line = pandoc.utils.stringify(author.name)
  for _, key in ipairs({ "affiliation", "contact" }) do
    line = line .. (author[key] and ", " .. pandoc.utils.stringify(author[key]) or "")
  end
  return pandoc.MetaInlines({ pandoc.Str(line) })
end

--- What Word shows or keeps of the front matter; any other key would become a property of the file.
local kept = { "title", "subtitle", "abstract", "keywords", "lang", "description", "bibliography" }

function docx.finish(doc)
  local meta = { author = pandoc.List(doc.meta.author or {}):map(author_line) }
  for _, key in ipairs(kept) do
    meta[key] = doc.meta[key]
  end
  meta.lang = meta.lang or "en"
  doc = bibliography.with_heading(pandoc.Pandoc(doc.blocks, meta))
  return doc:walk({
    Image = with_file,
    Math = function(element)
      return pandoc.Math(element.mathtype, numbers.whole(element.text))
    end,
  })
end

return docx
