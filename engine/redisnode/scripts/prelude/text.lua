-- smaller compares pairs of a number and a word, "7 abc" (owners, ballots, tokens): by the number, then by the bytes. The operator
-- < would go by the locale of the server.
local function smaller(a, b)
  if a == b then
    return false
  end
  local number_a, word_a = match(a, '^(%d+) (%S*)$')
  local number_b, word_b = match(b, '^(%d+) (%S*)$')
  if number_a ~= number_b then
    return tonumber(number_a) < tonumber(number_b)
  end
  for i = 1, math.min(#word_a, #word_b) do
    if word_a:byte(i) ~= word_b:byte(i) then
      return word_a:byte(i) < word_b:byte(i)
    end
  end
  return #word_a < #word_b
end
