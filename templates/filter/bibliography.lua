--- The place of the reference list: `::: {#refs} :::`, or the end of the document.

local bibliography = {}

local function is_list(block)
  return block and block.t == "Div" and block.identifier == "refs"
end

local function position(blocks)
  for i, block in ipairs(blocks) do
    if is_list(block) then
      return i
    end
  end
end

local function cites(doc)
  local found = false
  doc:walk({ Cite = function() found = true end })
  return found
end

--- Index of the list, put at the end if the document cites and has none; nil if it cites nothing.
local function ensure(doc)
  local i = position(doc.blocks)
  if not i and cites(doc) then
    doc.blocks:insert(pandoc.Div({}, { id = "refs" }))
    i = #doc.blocks
  end
  return i
end

--- A heading stands before the list.
function bibliography.with_heading(doc)
  local i = ensure(doc)
  if i and not (doc.blocks[i - 1] and doc.blocks[i - 1].t == "Header") then
    doc.blocks:insert(i, pandoc.Header(1, "References", { id = "references", class = "unnumbered" }))
  end
  return doc
end

--- The list, with the heading before it, gives way to `block`, which brings its own heading.
--- `cited` says whether there was any citation (the writer may have replaced them).
function bibliography.replaced(doc, block, cited)
  local i = position(doc.blocks)
  if i then
    doc.blocks:remove(i)
    if doc.blocks[i - 1] and doc.blocks[i - 1].t == "Header" then
      i = i - 1
      doc.blocks:remove(i)
    end
  else
    i = #doc.blocks + 1
  end
  if cited then
    doc.blocks:insert(i, block)
  end
  return doc
end

return bibliography
