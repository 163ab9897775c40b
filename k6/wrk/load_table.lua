-- wrk: loads of one table, over and over. With WRK_ETAG, as a client that has it already.

wrk.method = "GET"
wrk.path = os.getenv("WRK_PATH")
wrk.headers["Authorization"] = "Bearer " .. os.getenv("SLATEBERG_API_KEY")
local etag = os.getenv("WRK_ETAG")
if etag and etag ~= "" then
  wrk.headers["If-None-Match"] = etag
end
