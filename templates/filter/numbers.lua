--- Numbers in formulas whose digits are grouped: `10{,}616` is one number, which MathML and Typst
--- would take for a list of two.

local numbers = {}

function numbers.whole(tex)
  return (tex:gsub("%d+{,}[%d{},]*%d", function(number)
    return "\\text{" .. number:gsub("[{}]", "") .. "}"
  end))
end

return numbers
