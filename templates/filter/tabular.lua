--- Tables for LaTeX. pandoc writes `longtable`, which two-column classes refuse, so a table becomes
--- a booktabs `tabular`: the finished one from tables/<id>.tex if there is one, else one built from
--- the cells. The Quarto extension uses this module too.

local tabular = {}

local letters = {
  AlignLeft = "l",
  AlignDefault = "l",
  AlignCenter = "c",
  AlignRight = "r",
}

local function tex(text)
  return pandoc.RawInline("latex", text)
end

local function extend_row(inlines, row)
  for i, cell in ipairs(row.cells) do
    if i > 1 then
      inlines:insert(tex(" & "))
    end
    inlines:extend(pandoc.utils.blocks_to_inlines(cell.contents))
  end
  inlines:insert(tex(" \\\\\n"))
end

--- The `tabular` of a pandoc table as inlines.
function tabular.build(tbl)
  local columns = tbl.colspecs:map(function(spec)
    return letters[spec[1]] or "l"
  end)
  local inlines = pandoc.Inlines({
    tex("\\begin{tabular}{" .. table.concat(columns) .. "}\n\\toprule\n"),
  })
  for _, row in ipairs(tbl.head.rows) do
    extend_row(inlines, row)
  end
  if #tbl.head.rows > 0 then
    inlines:insert(tex("\\midrule\n"))
  end
  for _, body in ipairs(tbl.bodies) do
    for _, row in ipairs(body.body) do
      extend_row(inlines, row)
    end
  end
  inlines:insert(tex("\\bottomrule\n\\end{tabular}"))
  return inlines
end

--- The finished tabular's path relative to the document, or nil.
function tabular.file(id)
  local path = "tables/" .. id .. ".tex"
  local stream = io.open(path, "r")
  if stream then
    stream:close()
    return path
  end
end

return tabular
