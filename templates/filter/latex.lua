--- Writes the parts of a paper for LaTeX. The macros are in templates/latex/ridgepoint.sty.

local bibliography = require("filter.bibliography")
local files = require("filter.files")
local problems = require("filter.problems")
local tabular = require("filter.tabular")
local words = require("filter.words")
local latex = { has_pages = true }

local cited = false

local function tex(text)
  return pandoc.RawInline("latex", text)
end

local function block(text)
  return pandoc.RawBlock("latex", text)
end

--- Plain text with LaTeX's special characters escaped.
local function escape(text)
  local doc = pandoc.Pandoc({ pandoc.Plain({ pandoc.Str(text) }) })
  return (pandoc.write(doc, "latex", { wrap_text = "none" }):gsub("%s+$", ""))
end

local function graphic(part)
  return "\\ridgepointgraphic{" .. files.image(part.src, "pdf") .. "}{" .. escape(part.alt) .. "}"
end

local function caption(float)
  local inlines = pandoc.Inlines({ tex("\\caption{") })
  inlines:extend(float.caption)
  inlines:insert(tex("}\\label{" .. float.id .. "}\n"))
  return inlines
end

local function environment(name, float, inlines)
  name = name .. (float.spans and "*" or "")
  local place = float.here and "[H]" or ""
  inlines:insert(1, tex("\\begin{" .. name .. "}" .. place .. "\n\\centering\n"))
  inlines:insert(tex("\n\\end{" .. name .. "}"))
  return pandoc.Plain(inlines)
end

local function subfigure(part, columns)
  local inlines = pandoc.Inlines({
    tex("\\begin{ridgepointsubfigure}{" .. columns .. "}\n" .. graphic(part)
      .. "\n\\ridgepointsubcaption{"),
  })
  inlines:extend(part.caption)
  inlines:insert(tex("}" .. (part.id ~= "" and "\\label{" .. part.id .. "}" or "")
    .. "\n\\end{ridgepointsubfigure}"))
  return inlines
end

local function subfigures(float)
  local inlines = pandoc.Inlines({})
  for i, part in ipairs(float.parts) do
    inlines:extend(subfigure(part, float.columns))
    local last_in_row = i % float.columns == 0 or i == #float.parts
    inlines:insert(tex(last_in_row and "\n\n" or "\\hfill\n"))
  end
  return inlines
end

function latex.figure(float)
  local inlines
  if float.parts[1] and float.parts[1].letter then
    inlines = subfigures(float)
  else
    inlines = pandoc.Inlines({ tex(float.parts[1] and graphic(float.parts[1]) .. "\n" or "") })
  end
  inlines:extend(caption(float))
  return environment("figure", float, inlines)
end

local function notes_of(float)
  local inlines = pandoc.Inlines({ tex("\\begin{ridgepointnotes}\n") })
  inlines:extend(pandoc.utils.blocks_to_inlines(float.notes, { tex("\\par\n") }))
  inlines:insert(tex("\n\\end{ridgepointnotes}"))
  return inlines
end

--- The parts of a table for `longtable`, and what to measure its width by.
local function long_parts(float)
  local path = float.id and tabular.file(float.id)
  if not path then
    return tabular.parts(float.table), tabular.build(float.table)
  end
  local parts = tabular.parts_of(files.content(path))
  if not parts then
    problems.add("#" .. float.id, path .. " cannot be broken over pages; make it one tabular with "
      .. "\\toprule, \\midrule and \\bottomrule")
    parts = tabular.parts(float.table)
  end
  return parts, pandoc.Inlines({ tex("\\input{" .. path .. "}") })
end

--- A table that goes over pages, with its head on each.
local function long_table(float)
  local parts, whole = long_parts(float)
  local inlines = pandoc.Inlines({ tex("\\begin{ridgepointlong}{%\n") })
  inlines:extend(whole)
  inlines:insert(tex("}\n\\begin{longtable}{" .. parts.columns .. "}\n"))
  if float.id then
    inlines:extend(caption(float))
    inlines:insert(tex("\\\\\n"))
  end
  for _, place in ipairs({ "\\endfirsthead\n", "\\endhead\n" }) do
    inlines:insert(tex("\\toprule\n"))
    inlines:extend(parts.head)
    inlines:insert(tex(place))
  end
  inlines:insert(tex("\\bottomrule\n\\endfoot\n"))
  inlines:extend(parts.rows)
  inlines:insert(tex("\n\\end{longtable}\n"))
  if float.notes and #float.notes > 0 then
    inlines:insert(tex("\\nobreak\n"))
    inlines:extend(notes_of(float))
    inlines:insert(tex("\n"))
  end
  inlines:insert(tex("\\end{ridgepointlong}"))
  return pandoc.Plain(inlines)
end

--- A tabular on one page, in type and with gaps in which it fits its column.
local function fitted(inlines)
  local result = pandoc.Inlines({ tex("\\ridgepointtable{%\n") })
  result:extend(inlines)
  result:insert(tex("}"))
  return result
end

function latex.table(float)
  if float.long then
    return long_table(float)
  end
  local inlines = caption(float)
  local file = tabular.file(float.id)
  inlines:extend(fitted(file and { tex("\\input{" .. file .. "}") } or tabular.build(float.table)))
  inlines:insert(tex("\n"))
  if #float.notes > 0 then
    inlines:extend(notes_of(float))
  end
  return environment("table", float, inlines)
end

function latex.bare_table(tbl, long)
  if long then
    return long_table({ table = tbl })
  end
  local inlines = pandoc.Inlines({ tex("\\begin{center}\n") })
  inlines:extend(fitted(tabular.build(tbl)))
  inlines:insert(tex("\n\\end{center}"))
  return pandoc.Plain(inlines)
end

--- No blank line may stand in an equation.
function latex.equations(pieces)
  local inlines = pandoc.Inlines({})
  for _, piece in ipairs(pieces) do
    if piece.id then
      local body = piece.tex:gsub("^%s+", ""):gsub("%s+$", ""):gsub("\n%s*\n", "\n")
      inlines:insert(tex("\n\\begin{equation}\\label{" .. piece.id .. "}\n" .. body
        .. "\n\\end{equation}\n"))
    else
      inlines:extend(piece.text)
    end
  end
  while inlines[1].t == "Space" or inlines[1].t == "SoftBreak" do inlines:remove(1) end
  while inlines[#inlines].t == "Space" or inlines[#inlines].t == "SoftBreak" do inlines:remove() end
  return pandoc.Para(inlines)
end

function latex.heading(header)
  return header
end

--- Of one column it follows the references on their page.
function latex.supplement(header, two_columns)
  return { block(two_columns and "\\ridgepointsupplement" or "\\bigskip"), header }
end

function latex.reference(target, name)
  local number = "\\ref{" .. target.id .. "}"
  if target.kind == "eq" then
    number = "(" .. number .. ")"
  end
  return { tex((name and name .. "~" or "") .. number) }
end

--- `\cite` for the keys without a suffix together, one `\cite[...]` for each with one.
function latex.cite(cite)
  cited = true
  local inlines, keys = pandoc.Inlines({}), {}
  local function add(command)
    if #inlines > 0 and inlines[#inlines].t ~= "Space" then
      inlines:extend({ pandoc.Str(","), pandoc.Space() })
    end
    inlines:insert(tex(command))
  end
  local function flush()
    if #keys > 0 then
      add("\\cite{" .. table.concat(keys, ",") .. "}")
      keys = {}
    end
  end
  for _, item in ipairs(cite.citations) do
    if #item.prefix > 0 then
      flush()
      inlines:extend(item.prefix)
      inlines:insert(pandoc.Space())
    end
    if #item.suffix > 0 then
      flush()
      local note = pandoc.utils.stringify(item.suffix):gsub("^[%s,]+", "")
      add("\\cite[" .. escape(note) .. "]{" .. item.id .. "}")
    else
      keys[#keys + 1] = item.id
    end
  end
  flush()
  return inlines
end

function latex.callout(kind, title, body)
  local head = pandoc.Inlines({ tex("\\begin{ridgepointcallout}{") })
  head:extend(title)
  head:insert(tex("}"))
  local blocks = pandoc.Blocks({ pandoc.Plain(head) })
  blocks:extend(body)
  blocks:insert(block("\\end{ridgepointcallout}"))
  return blocks
end

local function is_display(inline)
  return inline and ((inline.t == "RawInline" and inline.text:match("^%s*\\begin{equation}"))
    or (inline.t == "Math" and inline.mathtype == "DisplayMath"))
end

--- Does `para` go on with the sentence that `before` ends with a formula in?
local function continues(before, para)
  local first = para.content[1]
  return is_display(first)
    or (is_display(before.content[#before.content]) and first and first.t == "Str"
      and first.text:match("^%l"))
end

--- A formula that begins a paragraph gets an empty line above it, and text that goes on after one
--- would be indented as if it began anew; both join the paragraph before them.
local function join_formulas(blocks)
  local joined = pandoc.Blocks({})
  for _, block in ipairs(blocks) do
    local before = joined[#joined]
    if block.t == "Para" and before and before.t == "Para" and continues(before, block) then
      before.content:insert(pandoc.SoftBreak())
      before.content:extend(block.content)
    else
      joined:insert(block)
    end
  end
  return joined
end

local function is_long_table(element)
  local first = element.t == "Plain" and element.content[1]
  return first and first.t == "RawInline" and first.text:match("^\\begin{ridgepointlong}")
end

--- A page may end between a heading and a table that goes over pages, so that both need room.
local function keep_with_tables(blocks)
  local kept, headings = pandoc.Blocks({}), pandoc.Blocks({})
  for _, element in ipairs(blocks) do
    if element.t == "Header" then
      headings:insert(element)
    else
      if #headings > 0 and is_long_table(element) then
        kept:insert(block("\\ridgepointroom"))
      end
      kept:extend(headings)
      kept:insert(element)
      headings = pandoc.Blocks({})
    end
  end
  return kept .. headings
end

local function inline_image(element)
  local part = { src = element.src, alt = element.attributes["fig-alt"] or "" }
  return tex(graphic(part))
end

--- One that takes less than half a column stays in one.
local function listing(code)
  code = words.in_code(code)
  local _, breaks = code.text:gsub("\n", "")
  if breaks < 24 then
    return { block("\\begin{ridgepointlisting}"), code, block("\\end{ridgepointlisting}") }
  end
  return code
end

function latex.plain(text)
  return pandoc.MetaInlines({ pandoc.Str(text) })
end

function latex.plain_list(texts)
  return latex.plain(table.concat(texts, ", "))
end

function latex.finish(doc)
  doc = bibliography.replaced(doc, block("\\bibliographystyle{IEEEtran}\n\\bibliography{"
    .. "ridgepoint,references}"), cited)
  doc = words.in_text(doc, tex("\\ridgepointbreak{}"))
  doc.blocks = keep_with_tables(doc.blocks)
  return doc:walk({ Image = inline_image, CodeBlock = listing, Blocks = join_formulas })
end

return latex
