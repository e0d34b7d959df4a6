--[[ Lays the tables out, after numbers and citations are in: a short one whose cells need not wrap stays in
one piece, a long one breaks over pages with its header repeated. Class small sets small type; class wrap
asks for columns of given widths, which a table too wide for the page gets anyway. ]]

local latex, typst, html = FORMAT:match("latex"), FORMAT:match("typst"), FORMAT:match("html")
local page_width, most_rows = 100, 25 -- characters and rows of a table that stays in one piece

local function rows_of(tbl)
  local rows = pandoc.List({})
  rows:extend(tbl.head.rows)
  for _, body in ipairs(tbl.bodies) do rows:extend(body.body) end
  return rows
end

local function width_of(cell)
  local plain = pandoc.Blocks(cell.contents):walk({ Math = function(math)
    return pandoc.Str((math.text:gsub("\\%a+", "x"):gsub("[{}^_%s]", "")))
  end })
  return utf8.len(pandoc.utils.stringify(plain)) + 2
end

local function natural_width(tbl)
  local widest, total = {}, 0
  for _, row in ipairs(rows_of(tbl)) do
    for index, cell in ipairs(row.cells) do
      widest[index] = math.max(widest[index] or 0, width_of(cell))
    end
  end
  for _, width in ipairs(widest) do total = total + width end
  return total
end

-- Pandoc writes each table as a longtable; one that stays in one piece becomes a float.
local function as_float(tbl, size)
  local text = pandoc.write(pandoc.Pandoc({ tbl }), "latex")
  local columns = text:match("\\begin{longtable}%[%]({@{}.-@{}})\n")
  local caption, label = text:match("\\caption(%b{})(\\label%b{})")
  local head = text:match("\\tabularnewline\n(.-)\\endfirsthead")
  local rows = text:match("\\endlastfoot\n(.-)\\end{longtable}")
  return pandoc.RawBlock("latex", table.concat({
    "\\begin{table}\\centering" .. size, "\\caption" .. caption .. label, "\\begin{tabular}" .. columns,
    head .. rows .. "\\bottomrule", "\\end{tabular}", "\\end{table}",
  }, "\n"))
end

-- A long table breaks over pages. The rule below it is a part of its body: as the foot that Pandoc makes of it, it
-- may go to a page of its own, under a header. A hairline tells rows apart whose cells wrap.
local function over_pages(tbl, wraps)
  local text = pandoc.write(pandoc.Pandoc({ tbl }), "latex")
  local head, body, rest = text:match("^(.*)\\bottomrule\\noalign{}\n\\endlastfoot\n(.-) \\\\\n(\\end{longtable}.*)$")
  if wraps then body = body:gsub(" \\\\\n", "%0\\specialrule{0.1pt}{0.8pt}{0.8pt}\n") end
  return pandoc.RawBlock("latex", head .. "\\endlastfoot\n" .. body .. " \\\\*\n\\bottomrule\n" .. rest)
end

local function in_markdown(tbl)
  local blocks = tbl.caption.long:map(function(block) return pandoc.Para(block.content) end)
  tbl.caption.long = {}
  blocks:insert(tbl)
  return blocks
end

function Table(tbl)
  local small = tbl.classes:includes("small")
  local wraps = tbl.classes:includes("wrap") or natural_width(tbl) > page_width
  local whole = #rows_of(tbl) <= most_rows and not wraps
  if not wraps then
    tbl.colspecs = tbl.colspecs:map(function(column) return { column[1], nil } end)
  end
  if latex then
    local size = small and "\\scriptsize\\renewcommand{\\arraystretch}{0.93}" or "\\small"
    if whole then return as_float(tbl, size) end
    return { pandoc.RawBlock("latex", "\\begingroup" .. size), over_pages(tbl, wraps), pandoc.RawBlock("latex", "\\endgroup") }
  elseif typst then
    local start = (small and "#smalltable(" or "#plaintable(") .. tostring(whole) .. ")["
    return { pandoc.RawBlock("typst", start), tbl, pandoc.RawBlock("typst", "]") }
  elseif html then
    return pandoc.Div({ tbl }, pandoc.Attr("", { "table" }))
  end
  return in_markdown(tbl)
end
