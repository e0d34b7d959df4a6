--[[ Marks, in the reference list that citeproc made, the works with the keyword "unread" in refs.bib.
In Markdown it also drops the spans, divisions and inner links that only HTML needs. ]]

local mark = "\u{2020}"
local legend = mark .. " Not read in full; cited from its abstract or from secondary sources."

local function unread_ids(doc)
  local ids = {}
  for _, reference in ipairs(pandoc.utils.references(doc)) do
    if pandoc.utils.stringify(reference.keyword or ""):match("unread") then ids["ref-" .. reference.id] = true end
  end
  return ids
end

local function unwrapped(element) return element.content end

local function unlinked(link)
  if link.target:match("^#") then return link.content end
end

function Pandoc(doc)
  local ids, any = unread_ids(doc), false
  local function mark_entry(div)
    if not ids[div.identifier] then return nil end
    any = true
    div.content[#div.content].content:extend({ pandoc.Str("\u{a0}" .. mark) })
    return div
  end
  local function add_legend(div)
    if div.identifier == "refs" and any then return { div, pandoc.Para(legend) } end
  end
  doc = doc:walk({ Div = mark_entry }):walk({ Div = add_legend })
  if FORMAT:match("gfm") then doc = doc:walk({ Span = unwrapped, Div = unwrapped, Link = unlinked }) end
  return doc
end
