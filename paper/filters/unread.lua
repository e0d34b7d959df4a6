--[[ Marks, in the reference list that citeproc made, the works with the keyword "unread" in refs.bib. ]]

local mark = "\u{2020}"

local function unread_ids(doc)
  local ids = {}
  for _, reference in ipairs(pandoc.utils.references(doc)) do
    if pandoc.utils.stringify(reference.keyword or ""):match("unread") then ids["ref-" .. reference.id] = true end
  end
  return ids
end

function Pandoc(doc)
  local ids, any = unread_ids(doc), false
  local function mark_entry(div)
    if ids[div.identifier] and #div.content > 0 then
      any = true
      div.content[#div.content].content:extend({ pandoc.Str("\u{a0}" .. mark) })
    elseif div.identifier == "refs" then
      local legend = pandoc.Div({ pandoc.Para(mark .. " Not read in full; cited from its abstract or from secondary sources.") })
      return any and { div, legend } or div
    end
    return div
  end
  doc.blocks = doc.blocks:walk({ Div = mark_entry })
  return doc
end
