--- Tables for LaTeX. pandoc writes `longtable`, which two-column classes refuse, so a table becomes
--- a booktabs `tabular`: the finished one from tables/<id>.tex if there is one, else one built from
--- the cells. The Quarto extension uses this module too.

local tabular = {}

local letters = {
  AlignLeft = "l",
  AlignDefault = "l",
  AlignCenter = "c",
  AlignRight = "r",
}

local function tex(text)
  return pandoc.RawInline("latex", text)
end

--- Rows of a page that a table may fill as a float; one with more is broken over pages. A row's
--- further lines, as part of its first. Characters of the table's type that fit into a line, and
--- how much wider a table may be that is made smaller rather than broken within cells.
local most_rows, further, line_width, shrunk = 20, 0.7, 99, 4 / 3

--- Copies of the tables whose texts are known; most tables are the same in every format.
local known = {}

local function texts_of(rows)
  local texts = {}
  for i, row in ipairs(rows) do
    texts[i] = row.cells:map(function(cell)
      return pandoc.utils.stringify(cell.contents)
    end)
  end
  return texts
end

--- The texts of the cells of a table: rows of its `head` and of its `body`. They are read from a
--- copy, since pandoc takes long to convert a table back after Lua has read its cells.
function tabular.texts(tbl)
  for _, entry in ipairs(known) do
    if entry.table == tbl then
      return entry.texts
    end
  end
  local copy, body = tbl:clone(), {}
  for _, part in ipairs(copy.bodies) do
    table.move(texts_of(part.body), 1, #part.body, #body + 1, body)
  end
  known[#known + 1] = { table = tbl:clone(), texts = { head = texts_of(copy.head.rows), body = body } }
  return known[#known].texts
end

--- Characters of a line after which a word without spaces can break; of a cell that is never broken.
local longest_word = 20
tabular.longest_short = 22

local function width_of(text)
  return utf8.len(text) + 2
end

--- The characters that each column holds, at least `least` if that is given: narrow columns what they
--- need, the others equal parts of the rest.
function tabular.column_widths(tbl, least)
  local needed, total = {}, 0
  for _, row in ipairs(tabular.texts(tbl).body) do
    for i, text in ipairs(row) do
      needed[i] = math.max(needed[i] or least or 0, width_of(text))
    end
  end
  local order, widths = {}, {}
  for i, width in ipairs(needed) do
    order[i], total = i, total + width
  end
  table.sort(order, function(a, b) return needed[a] < needed[b] end)
  local shrinks = total <= line_width * shrunk and needed[order[#order]] <= tabular.longest_short + 2
  local left = shrinks and total or math.min(total, line_width)
  for rank, i in ipairs(order) do
    widths[i] = math.min(needed[i], left / (#order - rank + 1))
    left = left - widths[i]
  end
  return widths
end

--- Do the words of the table, which do not break, not fit side by side, even made smaller? `line` is
--- the number of characters that do.
function tabular.sticks_out(tbl, line)
  local widest, total = {}, 0
  local texts = tabular.texts(tbl)
  for _, rows in ipairs({ texts.head, texts.body }) do
    for _, row in ipairs(rows) do
      for i, text in ipairs(row) do
        for word in text:gmatch("%S+") do
          widest[i] = math.max(widest[i] or 0, math.min(utf8.len(word), longest_word) + 2)
        end
      end
    end
  end
  for i = 1, #tbl.colspecs do
    total = total + (widest[i] or 0)
  end
  return total > line * shrunk
end

--- Is the table too long to be kept on one page of text in one column?
function tabular.is_long(tbl, most)
  local rows, widths = 0, tabular.column_widths(tbl)
  for _, row in ipairs(tabular.texts(tbl).body) do
    local lines = 1
    for i, text in ipairs(row) do
      lines = math.max(lines, math.ceil(width_of(text) / widths[i]))
    end
    rows = rows + 1 + further * (lines - 1)
  end
  return rows > (most or most_rows)
end

local function extend_row(inlines, row)
  for i, cell in ipairs(row.cells) do
    if i > 1 then
      inlines:insert(tex(" & "))
    end
    inlines:extend(pandoc.utils.blocks_to_inlines(cell.contents))
  end
  inlines:insert(tex(" \\\\\n"))
end

--- The column types of a pandoc table, its head with a rule below, and its rows as inlines.
function tabular.parts(tbl)
  local columns = tbl.colspecs:map(function(spec)
    return letters[spec[1]] or "l"
  end)
  local head, rows = pandoc.Inlines({}), pandoc.Inlines({})
  for _, row in ipairs(tbl.head.rows) do
    extend_row(head, row)
  end
  if #tbl.head.rows > 0 then
    head:insert(tex("\\midrule\n"))
  end
  for _, body in ipairs(tbl.bodies) do
    for _, row in ipairs(body.body) do
      extend_row(rows, row)
    end
  end
  return { columns = table.concat(columns), head = head, rows = rows }
end

--- The `tabular` of a pandoc table as inlines.
function tabular.build(tbl)
  local parts = tabular.parts(tbl)
  local inlines = pandoc.Inlines({
    tex("\\begin{tabular}{" .. parts.columns .. "}\n\\toprule\n"),
  })
  inlines:extend(parts.head)
  inlines:extend(parts.rows)
  inlines:insert(tex("\\bottomrule\n\\end{tabular}"))
  return inlines
end

--- The parts of a finished tabular as `tabular.parts` gives them, or nil if it has others.
function tabular.parts_of(text)
  local columns, inner = text:match("^%s*\\begin{tabular}(%b{})(.*)\\end{tabular}%s*$")
  local head, rows = (inner or ""):match("^[%%%s]*\\toprule(.-\\midrule)(.*)\\bottomrule[%%%s]*$")
  if not rows then
    return nil
  end
  return {
    columns = columns:sub(2, -2),
    head = pandoc.Inlines({ tex(head) }),
    rows = pandoc.Inlines({ tex(rows) }),
  }
end

--- The finished tabular's path relative to the document, or nil.
function tabular.file(id)
  local path = "tables/" .. id .. ".tex"
  local stream = io.open(path, "r")
  if stream then
    stream:close()
    return path
  end
end

return tabular
