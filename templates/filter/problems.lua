--- What is wrong with the document. Problems are gathered, so that one run names all of them, and
--- are handed to report/render/pandoc.py one a line: marker, tab, text to look for in the .qmd
--- (for the line number), tab, message.

local problems = {}
local found = {}

function problems.add(needle, message)
  found[#found + 1] = "RIDGEPOINT\t" .. needle .. "\t" .. message
end

--- Ends the run with an error if there was any problem.
function problems.stop()
  if #found == 0 then
    return
  end
  io.stderr:write(table.concat(found, "\n"), "\n")
  error("the document has " .. #found .. " problem(s)", 0)
end

--- The elements that may have an id; to be called for all others would take most of the time.
local identified = {
  "Code", "CodeBlock", "Div", "Figure", "Header", "Image", "Link", "Span", "Table",
}

local function identifiers(doc)
  local ids = {}
  local function note(element)
    if element.identifier ~= "" then
      ids[element.identifier] = true
    end
  end
  local function note_raw(element)
    for id in element.text:gmatch('%sid="([^"]+)"') do
      ids[id] = true
    end
  end
  local filter = { RawBlock = note_raw, RawInline = note_raw }
  for _, kind in ipairs(identified) do
    filter[kind] = note
  end
  doc:walk(filter)
  return ids
end

--- A link to a place in the page must have that place. Print formats have no such links left but
--- those that LaTeX and Typst check themselves.
function problems.check_links(doc, format)
  if not format:match("^html") then
    return
  end
  local ids = identifiers(doc)
  doc:walk({
    Link = function(link)
      local id = link.target:match("^#(.+)$")
      if id and not ids[id] then
        problems.add("#" .. id, "the link to #" .. id
          .. " leads nowhere; add an element with that id or mend the link")
      end
    end,
  })
end

--- Two dollars that pandoc has left in the text begin a formula that has no end; what follows them
--- in their line, or begins the next one, is looked for.
function problems.check_formulas(doc)
  local function look(block)
    if not pandoc.utils.stringify(block):find("$$", 1, true) then
      return
    end
    local words = pandoc.utils.stringify(block.content:map(function(inline)
      return inline.t == "SoftBreak" and pandoc.Str("\n") or inline
    end))
    local after = words:match("%$%$%s*([^\n]*)")
    if after then
      problems.add(after ~= "" and after or "$$", "a formula begins with $$ and has no end; "
        .. "close it with $$ before the paragraph ends, or write \\$ for a dollar")
    end
  end
  doc:walk({ Para = look, Plain = look })
end

return problems
