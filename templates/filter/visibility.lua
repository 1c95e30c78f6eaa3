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

--- The document, which was made from `text`, without what the format does not show. Elements are
--- visited only if the text has some to decide on: a paper has a thousand spans.
function visibility.only_shown(doc, text, format)
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
  -- Only pages link to the sentence of a claim.
  local drops_claims = format ~= "html" and text:find("%[%]{#claim%-")
  local has_hidden_spans = text:find("%]{[^}]*content%-")
  local function decide_span(span)
    if drops_claims and span.identifier:match("^claim%-") then
      return {}
    end
    return has_hidden_spans and decide(span) or nil
  end
  local filter = {
    Div = text:find("content%-") and decide or nil,
    Span = (drops_claims or has_hidden_spans) and decide_span or nil,
  }
  return next(filter) and doc:walk(filter) or doc
end

return visibility
