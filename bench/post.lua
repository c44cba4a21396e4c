-- Posts the lines of a file as reviews, in turn: wrk -s bench/post.lua URL -- FILE.
-- Answers without a patch are written to standard error, the first three of them.
local requests, sent, wrong = {}, 0, 0

function init(arguments)
  for review in io.lines(arguments[1]) do
    table.insert(requests, wrk.format("POST", nil, {["Content-Type"] = "application/json"}, review))
  end
end

function request()
  sent = sent + 1
  return requests[(sent - 1) % #requests + 1]
end

function response(status, _, body)
  if status == 200 and body:find('"patch"', 1, true) then return end
  wrong = wrong + 1
  if wrong <= 3 then io.stderr:write(status, " ", body:sub(1, 200), "\n") end
end
