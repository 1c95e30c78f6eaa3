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

local function each_row(tbl, act)
  for _, body in ipairs(tbl.bodies) do
    for _, row in ipairs(body.body) do
      act(row)
    end
  end
end

--- Characters of a line after which a word without spaces can break.
local longest_word = 20

local function width_of(cell)
  return utf8.len(pandoc.utils.stringify(cell.contents)) + 2
end

--- The characters that each column holds, at least `least` if that is given: narrow columns what they
--- need, the others equal parts of the rest.
function tabular.column_widths(tbl, least)
  local needed, total = {}, 0
  each_row(tbl, function(row)
    for i, cell in ipairs(row.cells) do
      needed[i] = math.max(needed[i] or least or 0, width_of(cell))
    end
  end)
  local order, widths = {}, {}
  for i, width in ipairs(needed) do
    order[i], total = i, total + width
  end
  local left = total <= line_width * shrunk and total or line_width
  table.sort(order, function(a, b) return needed[a] < needed[b] end)
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
  local function measure(row)
    for i, cell in ipairs(row.cells) do
      for word in pandoc.utils.stringify(cell.contents):gmatch("%S+") do
        widest[i] = math.max(widest[i] or 0, math.min(utf8.len(word), longest_word) + 2)
      end
    end
  end
  each_row(tbl, measure)
  for _, row in ipairs(tbl.head.rows) do
    measure(row)
  end
  for i = 1, #tbl.colspecs do
    total = total + (widest[i] or 0)
  end
  return total > line * shrunk
end

--- Is the table too long to be kept on one page of text in one column?
function tabular.is_long(tbl, most)
  local rows, most_rows = 0, most or most_rows
  each_row(tbl, function() rows = rows + 1 end)
  if rows > most_rows then
    return true
  end
  local widths = tabular.column_widths(tbl)
  rows = 0
  each_row(tbl, function(row)
    local lines = 1
    for i, cell in ipairs(row.cells) do
      lines = math.max(lines, math.ceil(width_of(cell) / widths[i]))
    end
    rows = rows + 1 + further * (lines - 1)
  end)
  return rows > most_rows
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
