-- Strings and numbers as they are compared on every node.

-- less compares strings by their bytes; the operator < goes by the locale of the server.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- smaller compares pairs of a number and a string: owners, ballots, tokens.
local function smaller(number_a, text_a, number_b, text_b)
  number_a, number_b = tonumber(number_a), tonumber(number_b)
  if number_a ~= number_b then
    return number_a < number_b
  end
  return less(text_a, text_b)
end
