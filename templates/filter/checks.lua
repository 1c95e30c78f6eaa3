--- What no paper may hold, since a format would drop it without a word, or run it: raw markup,
--- merged cells, commands of formulas that are none, notes and lists where a format has none.

local problems = require("filter.problems")
local checks = {}

local function trimmed(text)
  return text:match("^%s*(.-)%s*$")
end

--- The words of inlines, in lines as they were typed.
local function typed(inlines)
  return pandoc.utils.stringify(inlines:map(function(inline)
    return inline.t == "SoftBreak" and pandoc.Str("\n") or inline
  end))
end

--- A line of text in an element, by which it is looked for.
local function first_line(element)
  local line
  element:walk({ Inlines = function(inlines) line = line or typed(inlines):match("[^\n]+") end })
  return line or ""
end

--- Two dollars that pandoc has left in the text begin a formula that has no end; what follows them
--- in their line, or begins the next one, is looked for.
local function check_ends(block)
  local after = typed(block.content):match("%$%$%s*([^\n]*)")
  if after then
    problems.add(after ~= "" and after or "$$", "a formula begins with $$ and has no end; "
      .. "close it with $$ before the paragraph ends, or write \\$ for a dollar")
  end
end

--- Commands that belong to no formula here, each with what to write instead.
local foreign = {
  { "\\label%A", "number the formula by {#eq-name} behind it" },
  { "\\tag%A", "number the formula by {#eq-name} behind it" },
  { "\\ref%A", "write @eq-name in the text" },
  { "\\eqref%A", "write @eq-name in the text" },
  { "\\begin%s*{align[*a}]", "write aligned, which stands in a formula" },
  { "\\begin%s*{flalign", "write aligned, which stands in a formula" },
  { "\\begin%s*{eqnarray", "write aligned, which stands in a formula" },
  { "\\begin%s*{equation", "leave it out, since $$ begins the formula" },
  { "\\begin%s*{gather[*}]", "write gathered, which stands in a formula" },
  { "\\begin%s*{multline", "write gathered, which stands in a formula" },
  { "%^%^", "write one accent" },
}
for _, command in ipairs({ "href", "url", "input", "include", "openin", "read", "openout", "write",
    "csname", "catcode", "def", "let", "expandafter", "immediate", "special", "newcommand" }) do
  foreign[#foreign + 1] = { "\\" .. command .. "%A", "a formula holds mathematics alone" }
end

local function check_formula(math)
  local text = math.text .. " "
  for _, pair in ipairs(foreign) do
    local start, stop = text:find(pair[1])
    if start then
      local line = text:sub(1, stop):match("[^\n]*$") .. text:sub(stop + 1):match("[^\n]*")
      local found = text:sub(start, pair[1]:match("%%A$") and stop - 1 or stop)
      problems.add(trimmed(line), "a formula holds " .. found .. "; " .. pair[2])
    end
  end
end

local languages = { html = "HTML", latex = "LaTeX", tex = "LaTeX", typst = "Typst" }

local function check_raw(raw)
  if raw.format == "html" and raw.text:match("^%s*<!%-%-") then
    return
  end
  local line = trimmed(raw.text:match("[^\n]*%S[^\n]*") or raw.text)
  problems.add(line, "found raw " .. (languages[raw.format] or raw.format) .. ", " .. line
    .. ", which not every format prints; write markdown ([@key], *word*, a pipe table), "
    .. "and code in `backticks`")
end

local function check_note(text)
  return function(str)
    local note = str.text:match("%[%^[^%]]+%]")
    if note and text:find(note, 1, true) then
      problems.add(note, "the footnote " .. note .. " has no text; add a paragraph " .. note
        .. ": ... or fix its name")
    end
  end
end

local schemes = { http = true, https = true, mailto = true }
local function check_link(link)
  local scheme = link.target:gsub("[%c%s]", ""):match("^(%a[%w+.-]*):")
  if scheme and not schemes[scheme:lower()] then
    problems.add(link.target, "a link leads to " .. scheme .. ": and no paper does; write an address "
      .. "that begins with https://")
  end
end

--- Refuses notes where some format would lose, move or repeat them.
local function refuse_notes(blocks, where, needle)
  pandoc.Div(blocks):walk({ Note = function()
    problems.add(needle or first_line(pandoc.Div(blocks)), "a note stands in a " .. where
      .. ", which not every format prints; write it into the text")
  end })
end

local function check_terms(list)
  for _, item in ipairs(list.content) do
    refuse_notes(pandoc.Plain(item[1]), "term")
  end
end

local in_notes = { Para = true, Plain = true, BulletList = true, OrderedList = true }
local function check_content(note)
  for _, block in ipairs(note.content) do
    if not in_notes[block.t] then
      problems.add(first_line(note), "a note holds a " .. block.t .. ", which not every format "
        .. "prints; write paragraphs, or put it into the text")
    end
  end
end

--- Refuses lists and quotations within each other where LaTeX has no further level.
local deepest = 4
local function check_depth(element, depth)
  local function enter(list)
    if depth == deepest then
      problems.add(first_line(list), "lists stand in each other more than " .. deepest
        .. " levels deep, which not every format prints; write fewer levels")
    else
      check_depth(list, depth + 1)
    end
    return list, false
  end
  element:walk({ traverse = "topdown", BulletList = enter, OrderedList = enter,
    DefinitionList = enter, BlockQuote = enter })
end

--- Hands every cell of a table to `act`.
local function each_cell(tbl, act)
  local function rows(list)
    for _, row in ipairs(list) do
      for _, cell in ipairs(row.cells) do
        act(cell)
      end
    end
  end
  rows(tbl.head.rows)
  for _, body in ipairs(tbl.bodies) do
    rows(body.head)
    rows(body.body)
  end
  rows(tbl.foot.rows)
end

--- Refuses cells that some format cannot print. Marshalling every cell takes long, so that this is
--- called only for a table that may have one.
local function check_cells(tbl, problem)
  each_cell(tbl, function(cell)
    if cell.col_span > 1 or cell.row_span > 1 then
      problem("has merged cells", "give every row a cell for each column", cell.contents)
    elseif #cell.contents > 1 or cell.contents[1] and cell.contents[1].t ~= "Plain"
        and cell.contents[1].t ~= "Para" then
      problem("has a cell that is no single paragraph", "write words, or further rows",
        { cell.contents[1] })
    end
    cell.contents:walk({ Note = function(note)
      if #note.content > 1 or note.content[1].t ~= "Para" then
        problem("has a note that is no single paragraph", "write one", cell.contents)
      end
    end })
  end)
end

local function check_table(tbl, id, has_grids)
  local function problem(what, remedy, cell)
    local needle = id ~= "" and "#" .. id or pandoc.utils.stringify(cell or tbl.caption.long)
    problems.add(needle, "a table " .. what .. ", which not every format prints; " .. remedy)
  end
  if #tbl.caption.long > 0 and id == "" then
    problem("has a caption and no id", "end the caption with {#tbl-name}")
  end
  refuse_notes(tbl.caption.long, "caption", "#" .. id)
  if #tbl.foot.rows > 0 then
    problem("has a foot", "make it a row", tbl.foot.rows[1].cells[1].contents)
  end
  local has_notes = false
  tbl:walk({ Note = function() has_notes = true end })
  if has_grids or has_notes then
    check_cells(tbl, problem)
  end
end

--- Rows of a table that somebody may want to read on paper; pandoc takes minutes for thousands, so
--- that the lines of a table are counted before it reads them.
local most_rows, rule = 500, "^[%s|:+=>-]*%-%-[%s|:+=>-]*$"
function checks.source(text)
  for block in (text .. "\n\n"):gmatch("(.-)\n%s*\n") do
    local first, second = block:match("^\n*([^\n]+)\n([^\n]+)")
    if first and (first:match(rule) or second:match(rule)) then
      local _, rows = block:gsub(first:match("^%s*%+") and "\n%s*%+" or "\n", "")
      if rows > most_rows + 1 then
        problems.add(first, "a table has more than " .. most_rows .. " rows; print those that the "
          .. "question needs, and link to all, which the site has as CSV, by [words](tables/NAME.csv)")
        problems.stop()
      end
    end
  end
end

--- Adds a problem for everything in the document, read from `text`, that no paper may hold.
function checks.document(doc, text)
  -- Only cells of grid tables are more than words.
  local has_grids = text:find("%+[:=-][=-]") ~= nil
  local has_ends = pandoc.utils.stringify(doc):find("$$", 1, true) ~= nil
  local function tables(div)
    local kind = div.identifier:match("^(%a+)%-")
    if kind == "fig" or kind == "tbl" then
      refuse_notes({ div.content[#div.content] }, "caption", "#" .. div.identifier)
    end
    if kind == "tbl" then
      div:walk({ Table = function(tbl) check_table(tbl, div.identifier, has_grids) end })
      return div, false
    end
  end
  doc:walk({
    traverse = "topdown",
    Div = tables,
    Table = function(tbl)
      check_table(tbl, tbl.identifier, has_grids)
    end,
  })
  check_depth(doc, 0)
  for name, value in pairs(doc.meta) do
    if name ~= "abstract" then
      pandoc.Pandoc({}, { [name] = value }):walk({ Inlines = function(inlines)
        refuse_notes(pandoc.Plain(inlines), name, name .. ":")
      end })
    end
  end
  doc:walk({
    Header = function(header) refuse_notes(header, "heading") end,
    Image = function(image) refuse_notes(pandoc.Plain(image.caption), "caption", image.src) end,
    DefinitionList = check_terms,
    Link = check_link,
    Note = check_content,
    Para = has_ends and check_ends or nil,
    Plain = has_ends and check_ends or nil,
    Math = check_formula,
    RawInline = check_raw,
    RawBlock = check_raw,
    Str = text:find("[^", 1, true) and check_note(text) or nil,
  })
  if text:find("{{<", 1, true) then
    problems.add("{{<", "found a shortcode of Quarto, which no other format knows; write markdown")
  end
end

return checks
