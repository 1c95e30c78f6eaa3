--- Finds sections, figures, tables and equations in the order of the text, gives them their
--- numbers and hands each to the writer of the format.

local problems = require("filter.problems")
local tabular = require("filter.tabular")
local floats = {}

local Collector = {}
Collector.__index = Collector

--- Remembers where an id leads; two elements with one id are a problem.
function Collector:define(kind, id, number)
  if self.targets[id] then
    problems.add("#" .. id, "the id " .. id .. " is defined twice; ids must be unique")
  end
  if id:find("_", 1, true) then
    problems.add("#" .. id, "the id " .. id .. " has an underscore; use hyphens")
  end
  self.targets[id] = { kind = kind, id = id, number = number }
end

function Collector:next(kind)
  self.counts[kind] = (self.counts[kind] or 0) + 1
  return tostring(self.counts[kind])
end

local function section_number(levels, level)
  levels[level] = (levels[level] or 0) + 1
  for deeper = level + 1, 6 do
    levels[deeper] = 0
  end
  local parts = {}
  for i = 1, level do
    parts[i] = tostring(levels[i] or 0)
  end
  return table.concat(parts, ".")
end

--- From the supplement on, which has one column, floats stand where they are called for.
function Collector:header(header)
  if header.identifier == "sec-supplement" and self.writer.supplement then
    self.in_supplement = true
    return self.writer.supplement(header, not self.one_column)
  end
  if header.classes:includes("unnumbered") or not self.numbered then
    return nil
  end
  local number = section_number(self.levels, header.level)
  if header.identifier:match("^sec%-") then
    self:define("sec", header.identifier, number)
  end
  return self.writer.heading(header, number)
end

--- The last paragraph of a div is its caption; returns it and the blocks before it.
local function split_caption(div)
  local body = div.content:clone()
  local last = body[#body]
  if last and (last.t == "Para" or last.t == "Plain") and not last.content:find_if(function(inline)
    return inline.t == "Image"
  end) then
    body:remove()
    return last.content, body
  end
  problems.add("#" .. div.identifier, div.identifier
    .. " has no caption; end the div with a paragraph that is the caption")
  return pandoc.Inlines({}), body
end

--- Whether a table has to go over pages, where the format has pages and floats one column. `most`:
--- rows of a page.
function Collector:breaks(tbl, in_one_column, most)
  return in_one_column and self.writer.has_pages and tabular.is_long(tbl, most)
end

--- Characters of a table's type that fit side by side: on a page with one column of text, over both
--- columns of one with two, and in one of them.
local ONE_COLUMN, BOTH, HALF = 99, 128, 62

--- Refuses a table whose columns would be printed over each other; returns the width of its line.
function Collector:check_width(tbl, id, in_one_column, spans)
  local line = in_one_column and ONE_COLUMN or spans and BOTH or HALF
  if tabular.sticks_out(tbl, line) then
    local needle = id ~= "" and "#" .. id or pandoc.utils.stringify(tbl.head)
    problems.add(needle, "the table" .. (id ~= "" and " " .. id or "") .. " has " .. #tbl.colspecs
      .. " columns, which no page is wide enough for; write it as several, or with shorter words"
      .. (line == HALF and ", or add .wide" or ""))
  end
  return line
end

--- Moves the notes in the cells of a table below it, each text once, since a table that floats has
--- no foot of the page. Returns the table, and the notes as a paragraph behind their letters.
local function notes_below(tbl, notes)
  local marks, used, text = {}, 0, pandoc.Inlines({})
  notes:walk({ Superscript = function() used = used + 1 end })
  local noted = tbl:walk({ Note = function(note)
    local words = pandoc.utils.stringify(note.content)
    if not marks[words] then
      marks[words], used = pandoc.Superscript({ string.char(97 + used % 26):rep(used // 26 + 1) }), used + 1
      text:extend(#text > 0 and { pandoc.Space() } or {})
      text:extend({ marks[words], pandoc.Space() })
      text:extend(note.content[1].content)
    end
    return marks[words]
  end })
  return noted, #text > 0 and { pandoc.Para(text) } or {}
end

--- Adds what depends on the style: `spans` says that a float takes both columns of text, `long` that
--- a table goes over pages, as all do that follow text of one column in its supplement: none of
--- them leaves the end of a page empty.
function Collector:styled(float)
  float.here = self.in_supplement
  float.spans = float.wide and not self.one_column and not float.here
  -- A page of one column holds more than what the supplement's rule, which prefers breaks, allows.
  local most = self.one_column and 36 or nil
  float.long = float.table and (self.one_column and self.in_supplement and self.writer.has_pages
    or self:breaks(float.table, self.one_column or float.here, most))
  if float.table then
    local table_, below = notes_below(float.table, float.notes)
    float.table = table_
    float.notes:extend(below)
    float.line = self:check_width(float.table, float.id, self.one_column or float.here, float.spans)
  end
  return float
end

local function part_of(image, id, caption)
  local alt = image.attributes["fig-alt"]
  if not alt or alt == "" then
    problems.add(image.src, "the figure " .. (id ~= "" and id or image.src)
      .. ' has no alternative text; add fig-alt="..."')
  end
  return { src = image.src, alt = alt or "", id = id, caption = caption }
end

local function image_in(figure)
  local found
  figure:walk({ Image = function(image) found = found or image end })
  return found
end

--- The images of a div in order, whether each is a paragraph of its own or they share one.
local function parts_in(blocks)
  local parts = {}
  blocks:walk({
    traverse = "topdown",
    Figure = function(figure)
      local image = image_in(figure)
      parts[#parts + 1] = image and part_of(image, figure.identifier, image.caption)
      return nil, false
    end,
    Image = function(image)
      parts[#parts + 1] = part_of(image, image.identifier, image.caption)
    end,
  })
  return parts
end

function Collector:subfigures(parts, number)
  if #parts == 1 and parts[1].id == "" then
    return
  end
  for i, part in ipairs(parts) do
    part.letter = string.char(96 + i)
    if part.id ~= "" then
      self:define("fig", part.id, number .. "(" .. part.letter .. ")")
      self.targets[part.id].part = true
    end
  end
end

function Collector:figure_div(div)
  local number = self:next("fig")
  self:define("fig", div.identifier, number)
  local caption, body = split_caption(div)
  local parts = parts_in(body)
  if #parts == 0 then
    problems.add("#" .. div.identifier, div.identifier .. " holds no image; add one")
  end
  local function nothing() return {} end
  local rest = body:walk({ Image = nothing, Figure = nothing })
  if pandoc.utils.stringify(rest):find("%S") then
    problems.add("#" .. div.identifier, div.identifier .. " holds more than images and its caption; "
      .. "write the rest before or behind it")
  end
  self:subfigures(parts, number)
  return self.writer.figure(self:styled({
    id = div.identifier,
    number = number,
    caption = caption,
    wide = div.classes:includes("wide"),
    columns = tonumber(div.attributes["layout-ncol"] or "1") or 1,
    parts = parts,
  }))
end

function Collector:figure(figure)
  local image = image_in(figure)
  if not image then
    return nil
  end
  if not figure.identifier:match("^fig%-") then
    problems.add(image.src, "the figure " .. image.src .. " has no id; add {#fig-...}")
    return nil
  end
  local number = self:next("fig")
  self:define("fig", figure.identifier, number)
  local part = part_of(image, figure.identifier, {})
  part.id = ""
  return self.writer.figure(self:styled({
    id = figure.identifier,
    number = number,
    caption = image.caption,
    wide = image.classes:includes("wide") or figure.classes:includes("wide"),
    columns = 1,
    parts = { part },
  }))
end

function Collector:table_div(div)
  local number = self:next("tbl")
  self:define("tbl", div.identifier, number)
  local caption, body = split_caption(div)
  local float = {
    id = div.identifier,
    number = number,
    caption = caption,
    wide = div.classes:includes("wide"),
    notes = pandoc.Blocks({}),
  }
  for _, block in ipairs(body) do
    if block.t == "Table" then
      float.table = block
    elseif block.t == "Div" and block.classes:includes("table-notes") then
      float.notes:extend(block.content)
    else
      problems.add("#" .. div.identifier, div.identifier .. " holds a " .. block.t
        .. "; a table div holds a table, a .table-notes div and the caption")
    end
  end
  if not float.table then
    problems.add("#" .. div.identifier, div.identifier .. " holds no table; add one")
    return {}
  end
  return self.writer.table(self:styled(float))
end

--- A table whose id stands in its caption line, `: Caption {#tbl-x}`.
function Collector:captioned_table(tbl)
  local number = self:next("tbl")
  self:define("tbl", tbl.identifier, number)
  local caption = pandoc.utils.blocks_to_inlines(tbl.caption.long)
  return self.writer.table(self:styled({
    id = tbl.identifier,
    number = number,
    caption = caption,
    wide = tbl.classes:includes("wide"),
    notes = pandoc.Blocks({}),
    table = tbl,
  }))
end

local function equation_id(inlines, i)
  local after = inlines[i + 1]
  local skip = 1
  if after and (after.t == "Space" or after.t == "SoftBreak") then
    after, skip = inlines[i + 2], 2
  end
  local id, rest = (after and after.t == "Str" and after.text or ""):match("^{#(eq%-[^}]*)}(.*)$")
  return id, rest, skip
end

local function is_display(inline)
  return inline.t == "Math" and inline.mathtype == "DisplayMath"
end

--- Splits a paragraph at its numbered equations; the writer joins the pieces again.
function Collector:paragraph(para)
  -- Text alone is looked at first, since a visit of every word takes long.
  if not pandoc.utils.stringify(para):find("{#eq-", 1, true) then
    return nil
  end
  local content = para.content
  local pieces, text, found = {}, pandoc.Inlines({}), false
  local i = 1
  while i <= #content do
    local inline = content[i]
    local id, rest, skip
    if is_display(inline) then
      id, rest, skip = equation_id(content, i)
    end
    if id then
      local number = self:next("eq")
      self:define("eq", id, number)
      pieces[#pieces + 1] = { text = text }
      pieces[#pieces + 1] = { id = id, number = number, tex = inline.text }
      text, found, i = pandoc.Inlines({}), true, i + skip
      if rest ~= "" then
        text:insert(pandoc.Str(rest))
      end
    else
      text:insert(inline)
    end
    i = i + 1
  end
  if found then
    pieces[#pieces + 1] = { text = text }
    return self.writer.equations(pieces)
  end
end

local TWO_COLUMNS = { ieee = true, acm = true }
local function has_two_columns(meta)
  return meta["print-style"] and TWO_COLUMNS[pandoc.utils.stringify(meta["print-style"])]
end

--- Returns the document with its floats written, and `targets`: id -> {kind, id, number}.
function floats.collect(doc, writer)
  local collector = setmetatable({
    writer = writer,
    targets = {},
    counts = {},
    levels = {},
    numbered = doc.meta["number-sections"] ~= false,
    one_column = not has_two_columns(doc.meta),
  }, Collector)
  local function once(result)
    if result ~= nil then
      return result, false
    end
  end
  local walked = doc:walk({
    traverse = "topdown",
    Header = function(header) return once(collector:header(header)) end,
    Figure = function(figure) return once(collector:figure(figure)) end,
    Para = function(para) return once(collector:paragraph(para)) end,
    Plain = function(plain) return once(collector:paragraph(plain)) end,
    Table = function(tbl)
      if tbl.identifier:match("^tbl%-") then
        return once(collector:captioned_table(tbl))
      end
      if writer.has_pages then
        collector:check_width(tbl, "", collector.one_column or collector.in_supplement)
      end
      local noted, below = notes_below(tbl, pandoc.Blocks({}))
      local blocks = pandoc.Blocks(writer.bare_table(noted, collector:breaks(noted, collector.one_column)))
      return once(blocks .. below)
    end,
    Div = function(div)
      if div.identifier:match("^fig%-") then
        return once(collector:figure_div(div))
      elseif div.identifier:match("^tbl%-") then
        return once(collector:table_div(div))
      end
    end,
  })
  return { doc = walked, targets = collector.targets }
end

return floats
