--- The list of numbers, more than half of a paper's text, where only the page shows it: pandoc gets
--- one row in place of all, and the rows are written here as pandoc would write them.

local provenance = {}

--- The head of the list, as report/paper/manuscript.py writes it; the row that pandoc gets.
local head = "\n| Number | Value | Formula | Samples | From |\n| :--- | ---: | :--- | ---: | :--- |\n"
local stand_in = "list of numbers"
local on_page_only = '::: {.content-visible when-format="html"}'

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }

--- A row of the page from five cells of HTML.
local function row(cells)
  local html = { "<tr>" }
  for i, cell in ipairs(cells) do
    html[#html + 1] = '<td style="text-align: ' .. ((i == 2 or i == 4) and "right" or "left")
      .. ';">' .. cell .. "</td>"
  end
  return table.concat(html, "\n") .. "\n</tr>\n"
end

local function bytes(char)
  return "\1" .. char:byte() .. "\1"
end

local function char(byte)
  local text = string.char(tonumber(byte))
  return entities[text] or text
end

--- A line of the list as a row of the page; nil for another line.
local function row_of(line)
  -- A character behind a backslash is a character of the text.
  local coded = line:gsub("\\(%p)", bytes):gsub("[&<>]", bytes)
  local cells = {}
  for cell in (coded:match("^| (.*)$") or ""):gmatch("(.-) | ?") do
    cells[#cells + 1] = cell
  end
  local name, anchor = (cells[1] or ""):match("^%[(.*)%]{#(v%-[%w-]+)}$")
  if not name or #cells ~= 5 then
    return nil
  end
  cells[1] = '<span id="' .. anchor .. '">' .. name .. "</span>"
  return (row(cells):gsub("\1(%d+)\1", char))
end

--- The text of a document with one row in place of the list of numbers, and the rows of its page;
--- the same text alone if another format prints the list, or the list has other lines.
function provenance.cut(text)
  local _, last = text:find(head, 1, true)
  local before = text:sub(1, last or 0)
  if before:match(".*\n(:::[^\n]*)") ~= on_page_only then
    return text
  end
  local list, rest = text:sub(last + 1):match("^(.-\n)(\n.*)$")
  local rows = {}
  for line in (list or ""):gmatch("[^\n]+") do
    local html = row_of(line)
    if not html then
      return text
    end
    rows[#rows + 1] = html
  end
  if #rows == 0 then
    return text
  end
  return before .. "| " .. stand_in .. " |  |  |  |  |\n" .. rest, table.concat(rows)
end

--- The page that pandoc wrote with `rows` in place of the one that it got.
function provenance.completed(page, rows)
  local start, stop = page:find(row({ stand_in, "", "", "", "" }), 1, true)
  return start and page:sub(1, start - 1) .. rows .. page:sub(stop + 1) or page
end

return provenance
