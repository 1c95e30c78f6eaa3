--- What Quarto itself does not do for a ridgepoint paper. In LaTeX: tables as booktabs `tabular`
--- instead of `longtable`, which two-column classes refuse, and wide floats over both columns. In
--- Typst: figures as SVG, and tables in small type that go over pages. In every format but HTML:
--- columns as wide as their words, values and downloads as plain text, since what they link to is on
--- the page only.

local tabular = dofile(quarto.utils.resolve_path("tabular.lua"))

local two_columns = false

local function print_format()
  return not quarto.doc.is_format("html")
end

local function raw_tabular(id, tbl)
  local path = id and tabular.file(id)
  if path then
    local stream = assert(io.open(path, "r"))
    local text = stream:read("a")
    stream:close()
    return pandoc.Plain({ pandoc.RawInline("latex", text) })
  end
  return pandoc.Plain(tabular.build(tbl))
end

--- A table that is wider than its column is made smaller, as in the project's own LaTeX.
local function fitted(id, tbl)
  return pandoc.Blocks({
    pandoc.RawBlock("latex", "\\begin{ridgepointtable}"),
    raw_tabular(id, tbl),
    pandoc.RawBlock("latex", "\\end{ridgepointtable}"),
  })
end

local function has_wide(float)
  local wide = float.classes:includes("wide")
  pandoc.Blocks(float.content):walk({
    Image = function(image)
      wide = wide or image.classes:includes("wide")
    end,
  })
  return wide
end

local function float_target(float)
  if not quarto.doc.is_format("latex") then
    return nil
  end
  if two_columns and has_wide(float) then
    float.attributes["fig-env"] = float.type == "Table" and "table*" or "figure*"
  end
  if float.type == "Table" then
    float.content = pandoc.Blocks(float.content):walk({
      Table = function(tbl)
        return fitted(float.identifier, tbl)
      end,
    })
  end
  return float
end

--- On a page a table that is wider than its column scrolls by itself.
local function bare_table(tbl)
  tbl.colspecs = tbl.colspecs:map(function(spec)
    return { spec[1], nil }
  end)
  if quarto.doc.is_format("html") then
    return pandoc.Div({ tbl }, { class = "table-responsive" })
  end
  if two_columns and quarto.doc.is_format("latex") then
    local blocks = pandoc.Blocks({ pandoc.RawBlock("latex", "\\begin{center}") })
    blocks:extend(fitted(nil, tbl))
    blocks:insert(pandoc.RawBlock("latex", "\\end{center}"))
    return blocks
  end
  return tbl
end

local typst_style = [[
#show table: set text(size: 8pt)
#show table: set par(justify: false)
#show figure.where(kind: "quarto-float-tbl"): set block(breakable: true)
#show figure.caption.where(kind: "quarto-float-tbl"): it => block(sticky: true, it)
]]

local function read_style(meta)
  two_columns = pandoc.utils.stringify(meta["print-style"] or "") == "ieee"
  if quarto.doc.is_format("typst") then
    quarto.doc.include_text("in-header", typst_style)
  end
end

local function image(element)
  if quarto.doc.is_format("typst") then
    element.src = element.src:gsub("^(figures/.+)%.png$", "%1.svg")
    return element
  end
end

--- Links that print cannot follow: to values, and to files beside the page.
local function link_in_print(link)
  if not print_format() then
    return nil
  end
  local file = link.target:match("^tables/(.+)$")
  if file then
    local inlines = link.content:clone()
    inlines:extend({ pandoc.Space(), pandoc.Str("("), pandoc.Code(file), pandoc.Str(")") })
    return inlines
  elseif link.classes:includes("value") then
    return link.content
  end
end

-- One pass after the other: the style is known first, and tables in floats are done before the rest.
return {
  { Meta = read_style },
  { FloatRefTarget = float_target },
  { Table = bare_table, Link = link_in_print, Image = image },
}
