--- What a list of figures or tables says of each: the first sentence of the caption.

local lists = {}

--- Cross references stay; citations and footnotes belong to the caption alone, since their numbers
--- follow the order of the text, and the list stands before it.
local function belongs_to_text(inline)
  if inline.t == "Cite" then
    return not inline.citations[1].id:match("^%a+%-")
  end
  return inline.t == "Note"
end

local function is_blank(inline)
  return inline and (inline.t == "Space" or inline.t == "SoftBreak")
end

--- Does a sentence end with `caption[i]`? What goes on in lower case was an abbreviation.
local function ends_sentence(caption, i)
  local inline, after = caption[i], caption[i + 2]
  if inline.t ~= "Str" or not inline.text:match("%.$") then
    return false
  end
  local goes_on = after and after.t == "Str" and after.text:match("^%l")
  return i == #caption or (is_blank(caption[i + 1]) and not goes_on)
end

--- The caption's first sentence without its full stop.
function lists.short(caption)
  local short = pandoc.Inlines({})
  for i, inline in ipairs(caption) do
    if belongs_to_text(inline) then
      if is_blank(short[#short]) then
        short:remove()
      end
    else
      if ends_sentence(caption, i) then
        short:insert(pandoc.Str((inline.text:gsub("%.$", ""))))
        break
      end
      short:insert(inline)
    end
  end
  return short
end

return lists
