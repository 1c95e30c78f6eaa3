--- Writes the parts of a paper for the page. Whatever may be wider than a phone scrolls inside a
--- region of its own, which the keyboard can reach.

local files = require("filter.files")
local numbers = require("filter.numbers")
local words = require("filter.words")
local html = { links_values = true }

local function raw(text)
  return pandoc.RawBlock("html", text)
end

local function escape(text)
  return (text:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

local function scroll(name)
  return raw('<div class="scroll" tabindex="0" role="region" aria-label="' .. name .. '">')
end

--- `<figcaption>`; the id is what the figure or table is named by.
local function caption(float, name)
  local inlines = pandoc.Inlines({
    pandoc.RawInline("html", '<figcaption id="' .. float.id .. '-caption">'
      .. '<span class="label">' .. name .. " " .. float.number .. ".</span> "),
  })
  inlines:extend(float.caption)
  inlines:insert(pandoc.RawInline("html", "</figcaption>"))
  return pandoc.Plain(inlines)
end

local function image(part)
  local path = files.image(part.src, "svg")
  local width, height = files.svg_size(path)
  local size = width and height
    and string.format(' width="%d" height="%d"', width, height)
    or ""
  local drawn = path:match("^figures/.*%.svg$")
  local opened = drawn and ' data-opened="' .. escape((path:gsub("%.svg$", ".js"))) .. '"' or ""
  return raw('<a class="picture" href="' .. escape(path) .. '"' .. opened .. '><img class="drawn" src="'
    .. escape(path) .. '" alt="' .. escape(part.alt) .. '"' .. size .. ' loading="lazy"></a>')
end

--- Links to the files of a figure, for those who reuse it.
local function figure_links(float)
  local links = {}
  for _, part in ipairs(float.parts) do
    for _, kind in ipairs({ "svg", "pdf", "csv", "png", "jpg", "jpeg" }) do
      local path = part.src:gsub("%.%a+$", "") .. "." .. kind
      if files.exists(path) then
        local which = part.letter and " (" .. part.letter .. ")" or ""
        links[#links + 1] = '<a href="' .. escape(path) .. '" download aria-label="Figure '
          .. float.number .. which .. " as " .. kind:upper() .. '">' .. kind:upper() .. which .. "</a>"
      end
    end
  end
  return raw('<p class="figure-files">' .. table.concat(links, " ") .. "</p>")
end

local function subfigure(part)
  local blocks = pandoc.Blocks({
    raw('<figure class="subfigure"' .. (part.id ~= "" and ' id="' .. part.id .. '"' or "") .. ">"),
    scroll("Figure part " .. part.letter),
    image(part),
    raw("</div>"),
  })
  local text = pandoc.Inlines({
    pandoc.RawInline("html", '<figcaption><span class="label">(' .. part.letter .. ")</span> "),
  })
  text:extend(part.caption)
  text:insert(pandoc.RawInline("html", "</figcaption>"))
  blocks:extend({ pandoc.Plain(text), raw("</figure>") })
  return blocks
end

local function open_figure(float, class)
  return raw(string.format('<figure id="%s" class="%s%s" aria-labelledby="%s-caption">',
    float.id, class, float.wide and " wide" or "", float.id))
end

function html.figure(float)
  local blocks = pandoc.Blocks({ open_figure(float, "figure") })
  if float.parts[1] and float.parts[1].letter then
    blocks:insert(raw('<div class="subfigures columns-' .. float.columns .. '">'))
    for _, part in ipairs(float.parts) do
      blocks:extend(subfigure(part))
    end
    blocks:insert(raw("</div>"))
  else
    for _, part in ipairs(float.parts) do
      blocks:extend({ scroll("Figure " .. float.number), image(part), raw("</div>") })
    end
  end
  -- A caption has to stand last or first.
  blocks:extend({ figure_links(float), caption(float, "Figure"), raw("</figure>") })
  return blocks
end

--- A table without the column widths that pandoc guesses from the dashes in the source.
local function natural_widths(tbl)
  tbl.colspecs = tbl.colspecs:map(function(spec)
    return { spec[1], nil }
  end)
  tbl.caption = { long = {} }
  tbl.identifier = ""
  return tbl
end

--- A link to the table's numbers, where they are there as a file.
local function csv_link(float)
  local path = "tables/" .. float.id .. ".csv"
  if not files.exists(path) then
    return pandoc.Blocks({})
  end
  return pandoc.Blocks({ raw('<p class="table-file"><a href="' .. path .. '" download aria-label="Table '
    .. float.number .. ' as CSV">CSV</a></p>') })
end

function html.table(float)
  local tbl = natural_widths(float.table)
  tbl.attributes["aria-labelledby"] = float.id .. "-caption"
  local blocks = pandoc.Blocks({
    open_figure(float, "table"),
    caption(float, "Table"),
    scroll("Table " .. float.number),
    tbl,
    raw("</div>"),
  })
  if #float.notes > 0 then
    blocks:insert(pandoc.Div(float.notes, { class = "table-notes" }))
  end
  blocks:extend(csv_link(float))
  blocks:insert(raw("</figure>"))
  return blocks
end

-- A table without a number is told from others by its heads.
function html.bare_table(tbl)
  local heads = {}
  for _, row in ipairs(tbl.head.rows) do
    for _, cell in ipairs(row.cells) do heads[#heads + 1] = pandoc.utils.stringify(cell.contents) end
  end
  return { scroll("Table of " .. escape(table.concat(heads, ", "))), natural_widths(tbl), raw("</div>") }
end

local function equation(piece)
  return pandoc.Div({
    raw('<div class="scroll" tabindex="0" role="region" aria-label="Equation '
      .. piece.number .. '">'),
    pandoc.Plain({ pandoc.Math("DisplayMath", piece.tex) }),
    raw('</div><span class="equation-number">(' .. piece.number .. ")</span>"),
  }, { id = piece.id, class = "equation" })
end

function html.equations(pieces)
  return words.around(pieces, equation)
end

function html.heading(header, number)
  header.content:insert(1, pandoc.Space())
  header.content:insert(1, pandoc.Span({ pandoc.Str(number) }, { class = "section-number" }))
  return header
end

function html.reference(target, name)
  local number = target.kind == "eq" and "(" .. target.number .. ")" or target.number
  local text = name and (name .. "\u{a0}" .. number) or number
  return { pandoc.Link({ pandoc.Str(text) }, "#" .. target.id, "", { class = "reference" }) }
end

--- The browser saves the file rather than showing it.
function html.download(link)
  link.classes:insert("download")
  link.attributes.download = ""
  return link
end

function html.callout(kind, title, body)
  local blocks = pandoc.Blocks({
    pandoc.Div({ pandoc.Plain(title) }, { class = "callout-title" }),
  })
  blocks:extend(body)
  return pandoc.Div(blocks, { class = "admonition " .. kind, role = "note" })
end

--- An image that is not a figure of its own.
local function inline_image(element)
  local path = files.image(element.src, "svg")
  element.src = path
  element.caption = pandoc.Inlines(element.attributes["fig-alt"] or element.caption)
  element.attributes["fig-alt"] = nil
  return element
end

function html.plain(text)
  return pandoc.MetaInlines({ pandoc.Str(text) })
end

function html.plain_list(texts)
  return html.plain(table.concat(texts, ", "))
end

--- The title is the page's first heading, so that the paper's own begin one lower.
local function lower(header)
  header.level = header.level + 1
  return header
end

--- Code in which a line never ends within an option such as --quick.
local function code(element)
  local text, count = escape(element.text):gsub("%-%-[%w-]+", '<span class="option">%0</span>')
  if count > 0 and #element.classes == 0 then
    return pandoc.RawInline("html", "<code>" .. text .. "</code>")
  end
end

function html.finish(doc)
  local bibliography = require("filter.bibliography")
  local function math(element)
    return pandoc.Math(element.mathtype, numbers.whole(element.text))
  end
  doc = bibliography.with_heading(doc)
  return doc:walk({ Code = code, Header = lower, Image = inline_image, Math = math })
end

return html
