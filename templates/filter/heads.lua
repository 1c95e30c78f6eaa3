--- Heads of columns broken into lines, so that a table whose heads are longer than its numbers still
--- fits into the text.

local tabular = require("filter.tabular")
local heads = {}

--- Characters of a head that are never broken.
local shortest = 12

--- The widest cell below each head; the sum of the widths of all cells below it, and their number.
local function body_widths(tbl)
  local widths, totals, rows = {}, {}, tabular.texts(tbl).body
  for i = 1, #tbl.colspecs do
    widths[i], totals[i] = shortest, 0
  end
  for _, row in ipairs(rows) do
    for i, text in ipairs(row) do
      local width = utf8.len(text)
      widths[i], totals[i] = math.max(widths[i], width), totals[i] + width
    end
  end
  return widths, totals, #rows
end

local function fits(tbl, widths, line)
  local total = 0
  for _, row in ipairs(tabular.texts(tbl).head) do
    for i, text in ipairs(row) do
      total = total + math.max(widths[i], utf8.len(text)) + 2
    end
  end
  return total <= line
end

--- The same inlines with line breaks for spaces where a line would be wider than `width`.
local function wrapped(inlines, width)
  local result, used = pandoc.Inlines({}), 0
  for i, inline in ipairs(inlines) do
    local size = utf8.len(pandoc.utils.stringify(inline))
    local following = inlines[i + 1] and utf8.len(pandoc.utils.stringify(inlines[i + 1])) or 0
    if inline.t == "Space" and used + 1 + following > width then
      result:insert(pandoc.LineBreak())
      used = 0
    else
      result:insert(inline)
      used = used + size
    end
  end
  return result
end

--- Breaks the heads of a table that is wider than a line of so many characters of its type.
function heads.fit(tbl, line)
  local widths = body_widths(tbl)
  if fits(tbl, widths, line) then
    return tbl
  end
  for _, row in ipairs(tbl.head.rows) do
    for i, cell in ipairs(row.cells) do
      local inlines = pandoc.utils.blocks_to_inlines(cell.contents)
      cell.contents = pandoc.Blocks({ pandoc.Plain(wrapped(inlines, widths[i])) })
    end
  end
  return tbl
end

--- Columns of Typst: their number, or their shares if the table is wider than a line of so many
--- characters. A column of short cells has its natural width; the others share the rest by the
--- roots of their mean lengths, since equal shares would break the longest texts most.
function heads.columns(tbl, line)
  local widths, totals, rows = body_widths(tbl)
  if fits(tbl, widths, line) then
    return #widths
  end
  local shares = {}
  for i, width in ipairs(widths) do
    local mean = totals[i] / (rows + 1)
    shares[i] = width > tabular.longest_short and string.format("%.2ffr", math.sqrt(mean)) or "auto"
  end
  return "(" .. table.concat(shares, ", ") .. ")"
end

return heads
