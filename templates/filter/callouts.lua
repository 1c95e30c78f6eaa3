--- Callouts: a div of one of five kinds, with the title in an attribute or a first heading.

local callouts = {}

local default_titles = {
  note = "Note",
  tip = "Tip",
  warning = "Warning",
  important = "Important",
  caution = "Caution",
}

--- A list of kinds and no pattern: the writers' own classes must never look like a callout.
local function kind_of(div)
  for kind in pairs(default_titles) do
    if div.classes:includes("callout-" .. kind) then
      return kind
    end
  end
end

local function title_and_body(div, kind)
  local body = div.content:clone()
  if div.attributes.title then
    return pandoc.Inlines(div.attributes.title), body
  end
  if body[1] and body[1].t == "Header" then
    return body:remove(1).content, body
  end
  return pandoc.Inlines({ pandoc.Str(default_titles[kind]) }), body
end

function callouts.filter(writer)
  return {
    Div = function(div)
      local kind = kind_of(div)
      if kind then
        return writer.callout(kind, title_and_body(div, kind))
      end
    end,
  }
end

return callouts
