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

return problems
