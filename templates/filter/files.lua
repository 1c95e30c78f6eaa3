--- Files beside the document; pandoc runs in the document's folder.

local problems = require("filter.problems")
local files = {}

function files.exists(path)
  local stream = io.open(path, "r")
  if stream then
    stream:close()
  end
  return stream ~= nil
end

--- The whole text of a file that is there.
function files.content(path)
  local stream = assert(io.open(path, "r"))
  local text = stream:read("a")
  stream:close()
  return text
end

--- Why no paper may show the image, or nil.
local function refused(src)
  if not (src:match("^figures/") or src:match("^pictures/")) or src:find("..", 1, true) then
    return "is no file of the paper; put it into the study's folder of templates/papers/ and write "
      .. "pictures/NAME"
  elseif src:match("%.svg$") or src:match("%.pdf$") then
    return "is not for all formats; leave out the ending, so that each takes its own of .svg and .pdf"
  end
end

--- The path of an image with the extension of the format, or the path as it is if it has one.
function files.image(src, extension)
  local why = refused(src)
  if why then
    problems.add(src, "the image " .. src .. " " .. why)
    return "figures/"
  end
  local path = src:match("%.%a+$") and src or (src .. "." .. extension)
  if not files.exists(path) then
    problems.add(src, "the figure file " .. path .. " does not exist; make it or fix its name")
  end
  return path
end

--- The SVG of an image, whose letters must be outlines: as text they would be set in whatever font
--- is there.
function files.outlined(src)
  local path = files.image(src, "svg")
  local text = path:match("%.svg$") and files.exists(path) and files.content(path) or ""
  if text:find("<text", 1, true) then
    problems.add(src, "the figure file " .. path .. " holds text instead of outlines; draw it with "
      .. "svg.fonttype: path")
  end
  return path
end

local css_pixels = { pt = 4 / 3, px = 1, [""] = 1, mm = 96 / 25.4, cm = 96 / 2.54, ["in"] = 96 }

local function length(header, name)
  local value, unit = header:match("%s" .. name .. '%s*=%s*"([%d.]+)(%a*)"')
  if value and css_pixels[unit] then
    return math.floor(tonumber(value) * css_pixels[unit] + 0.5)
  end
end

--- Width and height of an SVG in CSS pixels, or nil: a page that knows them does not jump.
function files.svg_size(path)
  local stream = path:match("%.svg$") and io.open(path, "r")
  if not stream then
    return nil
  end
  local header = (stream:read(4096) or ""):match("<svg(.->)") or ""
  stream:close()
  return length(header, "width"), length(header, "height")
end

return files
