--- Long words, such as names of code: places where a line may break, so that none sticks out.

local words = {}

--- Characters of a word that may always stand on one line of text, of code, and of a cell of a table;
--- letters after which a word without signs breaks.
local in_text, in_code, in_cell, step = 45, 48, 20, 12

local function is_sign(char)
  return char:match("^[_:./;=+@\\-]$") ~= nil
end

--- A word in the pieces between which a line may break. Only ASCII is cut: the letters of other
--- scripts may be joined.
local function pieces(text, most)
  if utf8.len(text) <= most or text:find("%s") or text:find("\u{a0}") then
    return { text }
  end
  local found, start, count = {}, 1, 0
  for i = 1, #text - 1 do
    local char, after = text:sub(i, i), text:sub(i + 1, i + 1)
    count = count + 1
    local ends = is_sign(char) and not is_sign(after) or count >= step and after:match("^%w$")
    if ends and char:byte() < 128 and after:byte() < 128 then
      found[#found + 1] = text:sub(start, i)
      start, count = i + 1, 0
    end
  end
  found[#found + 1] = text:sub(start)
  return found
end

--- Inlines of `make` for each piece, with `place` between them; nil for a word that stays whole.
local function joined(text, most, place, make)
  if #text <= most then
    return nil
  end
  local inlines = pandoc.Inlines({})
  for i, piece in ipairs(pieces(text, most)) do
    if i > 1 then
      inlines:insert(place)
    end
    inlines:insert(make(piece))
  end
  return inlines
end

local function filter(most, place)
  return {
    traverse = "topdown",
    Link = function(link)
      return link, false
    end,
    Str = function(str)
      return joined(str.text, most, place, pandoc.Str)
    end,
    Code = function(code)
      return joined(code.text, most, place, function(piece)
        return pandoc.Code(piece, code.attr)
      end)
    end,
  }
end

--- Has a text a word of more bytes than `most`?
local function has_longer(text, most)
  for word in text:gmatch("%S+") do
    if #word > most then
      return true
    end
  end
  return false
end

--- The document with the raw inline `place` wherever a line of text may break within a word. Only
--- paragraphs and metadata with a long word are walked, since a visit of every word takes long.
function words.in_text(doc, place)
  local breaking = filter(in_text, place)
  local function broken(element)
    return has_longer(pandoc.utils.stringify(element), in_text) and element:walk(breaking) or nil
  end
  local meta = broken(pandoc.Pandoc({}, doc.meta))
  doc = doc:walk({ Para = broken, Plain = broken, Header = broken, LineBlock = broken,
    DefinitionList = broken })
  return pandoc.Pandoc(doc.blocks, meta and meta.meta or doc.meta)
end

--- A block of code whose long words may break, at a space of no width.
function words.in_code(code)
  code.text = code.text:gsub("%S+", function(word)
    return table.concat(pieces(word, in_code), "\u{200b}")
  end)
  return code
end

--- The same for the inlines of a cell in a narrow column of a table.
function words.in_cells(inlines, place)
  if #pandoc.utils.stringify(inlines) <= in_cell then
    return inlines
  end
  return inlines:walk(filter(in_cell, place))
end

local function trim(inlines)
  local function blank(inline)
    return inline and (inline.t == "Space" or inline.t == "SoftBreak")
  end
  while blank(inlines[1]) do inlines:remove(1) end
  while blank(inlines[#inlines]) do inlines:remove() end
  return inlines
end

--- The blocks of a paragraph with equations: `equation` of each, paragraphs of the text around them.
function words.around(pieces, equation)
  local blocks = pandoc.Blocks({})
  for _, piece in ipairs(pieces) do
    if piece.id then
      blocks:insert(equation(piece))
    elseif #trim(piece.text) > 0 then
      blocks:insert(pandoc.Para(piece.text))
    end
  end
  return blocks
end

return words
