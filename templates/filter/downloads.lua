--- Links to the tables beside the paper, `[words](tables/name)`: a download on the page; in print,
--- where there is nothing to follow, the words and the name of the file.

local files = require("filter.files")
local problems = require("filter.problems")
local downloads = {}

local function name_of(link)
  return link.target:match("^tables/(.+)$")
end

local function in_print(link, name)
  local inlines = link.content:clone()
  if pandoc.utils.stringify(inlines) ~= name then
    inlines:extend({ pandoc.Space(), pandoc.Str("("), pandoc.Code(name), pandoc.Str(")") })
  end
  return inlines
end

--- What stands for a link to a download; nil for any other link.
function downloads.written(link, writer)
  local name = name_of(link)
  if not name then
    return nil
  end
  if not files.exists(link.target) then
    problems.add(link.target, "the link leads to " .. link.target
      .. ", which does not exist; fix the link")
  end
  return writer.download and writer.download(link) or in_print(link, name)
end

return downloads
