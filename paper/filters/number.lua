--[[ Numbers sections, equations, figures and tables, and resolves references to them, alike in every format.

The numbers are written into the text here; the templates switch the formats' own numbering off. Labels:
    # Heading {#sec:name}            $$ ... $$ {#eq:name}
    ![caption](file){#fig:name}      : caption {#tbl:name}
References: @eq:name gives "Equation (1)", [-@eq:name] gives "(1)", [@eq:a; @eq:b] "Equations (1) and (2)".
A heading of class unnumbered has no number; a level-1 heading of class appendix gets a letter.
Every problem is reported, with the line of the source, and stops the conversion. ]]

local nbsp = "\u{a0}"
local word = { eq = "Equation", fig = "Figure", tbl = "Table", sec = "Section" }
local labels, order, used, problems = {}, {}, {}, {}
local counter, section, appendix = { eq = 0, fig = 0, tbl = 0 }, {}, false

local latex, typst = FORMAT:match("latex"), FORMAT:match("typst")
local plain_markdown = FORMAT:match("gfm") or FORMAT:match("commonmark") or FORMAT:match("markdown")

local function source_line(text)
  local path = PANDOC_STATE.input_files[1]
  local file = path and path ~= "-" and io.open(path)
  if not file then return "" end
  local number = 0
  for line in file:lines() do
    number = number + 1
    local _, last = line:find(text, 1, true)
    if last and not line:sub(last + 1):match("^[%w_-]") then
      file:close()
      return path .. ":" .. number .. ": "
    end
  end
  file:close()
  return path .. ": "
end

local function problem(at, text) table.insert(problems, source_line(at) .. text) end

local function define(label, number, name)
  if labels[label] then
    problem("#" .. label, "the label " .. label .. " is given twice")
  end
  labels[label] = { number = number, word = name or word[label:match("^%a+")] }
  table.insert(order, label)
end

local function count(kind, label, what)
  if not label:match("^" .. kind .. ":.") then
    problem(what, "a " .. word[kind]:lower() .. " needs a label {#" .. kind .. ":name}: " .. what)
    return "?"
  end
  counter[kind] = counter[kind] + 1
  local number = tostring(counter[kind])
  if kind == "eq" then number = "(" .. number .. ")" end
  define(label, number)
  return number
end

-- Sections

local function heading_number(level)
  for deeper = level + 1, #section do section[deeper] = nil end
  for upper = 1, level do section[upper] = section[upper] or 0 end
  section[level] = section[level] + 1
  local parts = {}
  for upper = 1, level do
    parts[upper] = (upper == 1 and appendix) and string.char(64 + section[1]) or tostring(section[upper])
  end
  return table.concat(parts, ".")
end

local function number_header(header)
  if header.classes:includes("unnumbered") then return nil end
  if header.level == 1 and header.classes:includes("appendix") and not appendix then
    appendix, section = true, {}
  end
  local number = heading_number(header.level)
  if header.identifier:match("^sec:") then
    define(header.identifier, number, appendix and "Appendix" or "Section")
  end
  header.content:insert(1, pandoc.Str(number .. nbsp .. nbsp))
  return header
end

-- Equations: a display formula followed by {#eq:name} leaves its paragraph and becomes a block of its own

local function is_space(inline)
  return inline and (inline.t == "Space" or inline.t == "SoftBreak")
end

local function label_after(inlines, index)
  local next_index = is_space(inlines[index + 1]) and index + 2 or index + 1
  local text = inlines[next_index]
  if text and text.t == "Str" then
    local label, rest = text.text:match("^{#(eq:[%w_:-]+)}(.*)$")
    return label, rest, next_index
  end
end

local function take_equations_out(para)
  local blocks, text = pandoc.Blocks({}), pandoc.Inlines({})
  local function flush()
    while is_space(text[#text]) do text:remove() end
    if #text > 0 then blocks:insert(pandoc.Para(text)) end
    text = pandoc.Inlines({})
  end
  local index = 1
  while index <= #para.content do
    local inline = para.content[index]
    local label, rest, last
    if inline.t == "Math" and inline.mathtype == "DisplayMath" then
      label, rest, last = label_after(para.content, index)
    end
    if label then
      flush()
      blocks:insert(pandoc.Div({ pandoc.Plain({ inline }) }, pandoc.Attr(label, { "equation" })))
      if rest ~= "" then text:insert(pandoc.Str(rest)) end
      index = last
    elseif #text > 0 or not is_space(inline) then
      text:insert(inline)
    end
    index = index + 1
  end
  if #blocks == 0 then return nil end
  flush()
  return blocks
end

local function number_equation(div)
  if not div.classes:includes("equation") then return nil end
  local formula = div.content[1].content[1]
  local label, number = div.identifier, count("eq", div.identifier, formula.text)
  if latex then
    local body = formula.text:gsub("^%s+", ""):gsub("%s+$", "")
    return pandoc.RawBlock("latex", "\\noindent\\begin{equation}\\tag{" .. number:sub(2, -2) .. "}\\label{" .. label
      .. "}\n" .. body .. "\n\\end{equation}")
  elseif typst then
    local body = pandoc.write(pandoc.Pandoc({ pandoc.Plain({ formula }) }), "typst"):gsub("%s+$", "")
    return pandoc.RawBlock("typst", "#[#set math.equation(numbering: _ => \"" .. number .. "\")\n" .. body
      .. " <" .. label .. ">]")
  elseif plain_markdown then
    return pandoc.Para({ pandoc.Math("DisplayMath", formula.text .. "\\tag{" .. number:sub(2, -2) .. "}") })
  end
  div.content[1].content:insert(pandoc.Span(number, pandoc.Attr("", { "number" })))
  return div
end

-- Figures and tables

local function prefix(caption, kind, number)
  local lead = { pandoc.Strong({ pandoc.Str(word[kind] .. nbsp .. number .. ".") }), pandoc.Space() }
  if #caption.long == 0 then caption.long = { pandoc.Plain({}) } end
  for index, inline in ipairs(lead) do caption.long[1].content:insert(index, inline) end
end

local function file_is_there(image)
  local file = io.open(image.src, "rb")
  if file then file:close() else problem(image.src:gsub("%.%w+$", ""), "there is no file " .. image.src) end
end

local function number_figure(figure)
  prefix(figure.caption, "fig", count("fig", figure.identifier, pandoc.utils.stringify(figure.caption.long)))
  return figure
end

local function finish_figure(figure)
  local caption = figure.caption.long
  local alt = pandoc.utils.stringify(caption:walk({
    Cite = function() return {} end, Math = function(math) return pandoc.Str(math.text:gsub("[\\{}]", "")) end,
  }))
  figure = figure:walk({ Image = function(image)
    file_is_there(image)
    image.caption = plain_markdown and pandoc.Inlines(alt) or {}
    if not plain_markdown then image.attributes.alt = alt end
    return image
  end })
  if not plain_markdown then return figure end
  local blocks = figure.content:map(function(block) return pandoc.Para(block.content) end)
  blocks:extend(caption:map(function(block) return pandoc.Para(block.content) end))
  return blocks
end

local function number_table(tbl)
  prefix(tbl.caption, "tbl", count("tbl", tbl.identifier, pandoc.utils.stringify(tbl.caption.long)))
  return tbl
end

-- References

local function link(label, text)
  if plain_markdown then return pandoc.Str(text) end
  return pandoc.Link(text, "#" .. label)
end

local function labels_like(id)
  local kind = id:match("^%a+:")
  local known = pandoc.List(order):filter(function(label) return label:sub(1, #kind) == kind end)
  return table.concat(known, ", ")
end

local function resolve(citation, with_word)
  used[citation.id] = true
  local target = labels[citation.id]
  if not target then
    problem("@" .. citation.id, "there is no " .. citation.id .. "; labels are: " .. labels_like(citation.id))
    return pandoc.Str("?")
  end
  local bare = not with_word or citation.mode == "SuppressAuthor"
  return link(citation.id, bare and target.number or target.word .. nbsp .. target.number)
end

local function joined(parts)
  local result = pandoc.Inlines({})
  for index, part in ipairs(parts) do
    if index > 1 then result:insert(pandoc.Str(index < #parts and ", " or (#parts > 2 and ", and " or " and "))) end
    result:insert(part)
  end
  return result
end

local function common_word(citations)
  local first = labels[citations[1].id]
  for _, citation in ipairs(citations) do
    local target = labels[citation.id]
    if not first or not target or target.word ~= first.word or citation.mode == "SuppressAuthor" then return nil end
  end
  return #citations > 1 and first.word or nil
end

local function refer(cite)
  local own = cite.citations:filter(function(citation) return word[citation.id:match("^(%a+):") or ""] end)
  if #own == 0 then return nil end
  if #own < #cite.citations then
    problem("@" .. own[1].id, "a citation and a reference in one bracket: " .. pandoc.utils.stringify(cite.content))
  end
  local shared = common_word(own)
  local result = joined(own:map(function(citation) return resolve(citation, not shared) end))
  if shared then
    local plural = shared == "Appendix" and "Appendices" or shared .. "s"
    result:insert(1, pandoc.Str(plural .. nbsp))
  end
  return result
end

function Pandoc(doc)
  doc.blocks = doc.blocks:walk({ Para = take_equations_out })
  doc.blocks = doc.blocks:walk({
    traverse = "topdown", Header = number_header, Div = number_equation, Figure = number_figure, Table = number_table,
  })
  doc = doc:walk({ Cite = refer })
  doc = doc:walk({ Figure = finish_figure })
  for _, label in ipairs(order) do
    if label:match("^fig:") or label:match("^tbl:") then
      if not used[label] then problem("#" .. label, label .. " is never referred to; say @" .. label .. " in the text") end
    end
  end
  if #problems > 0 then error("\n" .. table.concat(problems, "\n") .. "\n", 0) end
  return doc
end
