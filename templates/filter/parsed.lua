--- The texts that a reader sees in markdown, and the names that its front matter declares: reads
--- {front, texts} as JSON from the standard input, and writes {names, texts}, of these each as
--- {kind, text}. `1*2*` reads 12; code, formulas, notes and pictures stand apart of the words.

local BODY = "markdown-yaml_metadata_block-pandoc_title_block"
local SHOWN = { "title", "subtitle", "abstract", "keywords", "question" }
local APART, APART_NUMBER = "\u{FFFC}", "\u{FFFD}"
local SPACES = { Space = true, SoftBreak = true, LineBreak = true }
local seen, in_front = pandoc.List(), false
local visit, words

local function add(kind, text)
  seen:insert({ in_front and "words" or kind, text })
end

--- What stands among words for a text that stands apart of them.
local function apart(text)
  local number = text:match("^[%d%.,%+%-*/\128-\255]") or text:match("[%d%.,%+%-\128-\255][%s{}]*$")
    or text:match("\\[pm][pm][%s{}]*$")
  return number and APART_NUMBER or APART
end

local function add_attributes(element)
  for name, value in pairs(element.attributes or {}) do
    if name == "title" or name:match("alt$") or name:match("cap$") then
      add("words", value)
    end
  end
end

local function raw(element)
  return (element.text:gsub("<!%-%-.-%-%->", ""))
end

local inline = {
  RawInline = raw,
  Quoted = function(x)
    local single = x.quotetype == "SingleQuote"
    return (single and "‘" or "“") .. words(x.content) .. (single and "’" or "”")
  end,
  Code = function(x) add("code", x.text) return apart(x.text) end,
  Math = function(x) add("math", x.text) return apart(x.text) end,
  Note = function(x) x.content:walk(visit) return APART end,
  Image = function(x) add("words", x.title) add("words", words(x.caption)) return APART end,
  Link = function(x)
    add("words", in_front and x.target or x.title)
    add("link", words(x.content))
    return words(x.content)
  end,
  Cite = function(x)
    for _, citation in ipairs(x.citations) do
      add("words", words(citation.prefix) .. " " .. words(citation.suffix))
    end
    return APART
  end,
}

--- Words and spaces, which are most of a text, have no attributes.
function words(inlines)
  local parts = {}
  for i, x in ipairs(inlines) do
    local kind = x.t
    if kind == "Str" then
      parts[i] = x.text
    elseif SPACES[kind] then
      parts[i] = " "
    else
      add_attributes(x)
      parts[i] = inline[kind] and inline[kind](x) or words(x.content)
    end
  end
  return table.concat(parts)
end

visit = {
  traverse = "topdown",
  Block = add_attributes,
  Inlines = function(x) add("words", words(x)) return x, false end,
  Figure = function(x)  -- the alternative text of its picture is its caption again
    x.content = x.content:walk({ Image = function(image) image.caption = {} return image end })
    add_attributes(x)
    return x
  end,
  CodeBlock = function(x) add("code", x.text) end,
  RawBlock = function(x) add("words", raw(x)) end,
  OrderedList = function(x)
    local lettered = x.style:match("Alpha$") or x.style == "Example"
    if not lettered and (x.start ~= 1 or x.style == "Decimal") then
      add("words", x.start .. " " .. pandoc.utils.stringify(x.content[1]))
    end
  end,
}

local function add_meta(value)
  local kind = pandoc.utils.type(value)
  if kind == "Inlines" then
    add("words", words(value))
  elseif kind == "Blocks" then
    value:walk(visit)
  elseif kind == "table" or kind == "List" then
    for _, part in pairs(value) do add_meta(part) end
  elseif value ~= nil then
    add("words", tostring(value))
  end
end

local job = pandoc.json.decode(io.read("a"), false)
for _, text in ipairs(job.texts) do
  pandoc.read("\n" .. text, BODY):walk(visit)
end
in_front = true
local readable, front = pcall(pandoc.read, job.front, "markdown")
readable = readable and #front.blocks == 0
if readable then
  for _, key in ipairs(SHOWN) do add_meta(front.meta[key]) end
  for _, author in ipairs(front.meta.author or {}) do  -- a name is no result, whatever its digits
    if pandoc.utils.type(author) == "table" and author.name then
      seen:insert({ "author", pandoc.utils.stringify(author.name) })
    end
  end
else
  add("words", job.front)
end
local names = pandoc.List(readable and front.meta.names or {}):map(pandoc.utils.stringify)
io.write(pandoc.json.encode({ names = names, texts = seen }))
