--- What no paper may hold, since a format would drop it without a word, or run it: raw markup,
--- merged cells, commands of formulas that are none, undefined notes.

local problems = require("filter.problems")
local checks = {}

local function trimmed(text)
  return text:match("^%s*(.-)%s*$")
end

--- Two dollars that pandoc has left in the text begin a formula that has no end; what follows them
--- in their line, or begins the next one, is looked for.
local function check_ends(block)
  if not pandoc.utils.stringify(block):find("$$", 1, true) then
    return
  end
  local words = pandoc.utils.stringify(block.content:map(function(inline)
    return inline.t == "SoftBreak" and pandoc.Str("\n") or inline
  end))
  local after = words:match("%$%$%s*([^\n]*)")
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
for _, command in ipairs({ "input", "include", "openin", "read", "openout", "write", "csname",
    "catcode", "def", "let", "expandafter", "immediate", "special", "newcommand" }) do
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

local function check_table(tbl, id)
  local function problem(what, remedy, cell)
    local needle = id ~= "" and "#" .. id or pandoc.utils.stringify(cell or tbl.caption.long)
    problems.add(needle, "a table " .. what .. ", which not every format prints; " .. remedy)
  end
  if #tbl.caption.long > 0 and id == "" then
    problem("has a caption and no id", "end the caption with {#tbl-name}")
  end
  if #tbl.foot.rows > 0 then
    problem("has a foot", "make it a row", tbl.foot.rows[1].cells[1].contents)
  end
  each_cell(tbl, function(cell)
    if cell.col_span > 1 or cell.row_span > 1 then
      problem("has merged cells", "give every row a cell for each column", cell.contents)
    elseif #cell.contents > 1 or cell.contents[1] and cell.contents[1].t ~= "Plain"
        and cell.contents[1].t ~= "Para" then
      problem("has a cell that is no single paragraph", "write words, or further rows",
        { cell.contents[1] })
    end
  end)
end

--- Adds a problem for everything in the document, read from `text`, that no paper may hold.
function checks.document(doc, text)
  local function tables(div)
    if div.identifier:match("^tbl%-") then
      div:walk({ Table = function(tbl) check_table(tbl, div.identifier) end })
      return div, false
    end
  end
  doc:walk({
    traverse = "topdown",
    Div = tables,
    Table = function(tbl)
      check_table(tbl, tbl.identifier)
    end,
  })
  doc:walk({
    Para = check_ends,
    Plain = check_ends,
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
