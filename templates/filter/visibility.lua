--- `content-visible` and `content-hidden` with `when-format` or `unless-format`.

local problems = require("filter.problems")
local visibility = {}

--- Which names of formats hold for each output: the print route has LaTeX and Typst in it, and
--- "pdf" means LaTeX as it does in Quarto.
local names = {
  html = { html = true },
  latex = { latex = true, pdf = true },
  typst = { typst = true },
  docx = { docx = true },
}

local function holds(format, attributes, id)
  local when, unless = attributes["when-format"], attributes["unless-format"]
  for _, name in ipairs({ when or "html", unless or "html" }) do
    if not (names[name] or name == "pdf") then
      problems.add('"' .. name .. '"', "the format " .. name
        .. " is not known; use html, latex, pdf, typst or docx")
    end
  end
  if not when and not unless then
    problems.add("content-", "a content-visible or content-hidden element has no format; "
      .. 'add when-format="html" or the like')
  end
  return (not when or names[format][when] or false)
    and not (unless and names[format][unless])
end

--- The document, which was made from `text`, without what the format does not show.
function visibility.only_shown(doc, text, format)
  -- Only pages link to the sentence of a claim.
  if format ~= "html" and text:find("%[%]{#claim%-") then
    doc = doc:walk({ Span = function(span)
      return span.identifier:match("^claim%-") and {} or nil
    end })
  end
  if not text:find("content%-") then
    return doc
  end
  local function decide(element)
    local visible = element.classes:includes("content-visible")
    local hidden = element.classes:includes("content-hidden")
    if not visible and not hidden then
      return nil
    end
    if holds(format, element.attributes) == visible then
      return element.content
    end
    return {}
  end
  -- A paper has a thousand spans, and hardly ever one that is not for all formats.
  return doc:walk({ Div = decide, Span = text:find("%]{[^}]*content%-") and decide or nil })
end

return visibility
