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
  if pandoc.utils.stringify(doc):find("$$", 1, true) then
    doc:walk({ Para = look, Plain = look })
  end
end

return problems
