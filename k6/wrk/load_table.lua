-- wrk: loads one table repeatedly. With WRK_ETAG, the requests contain this ETag, and the responses are 304.

wrk.method = "GET"
wrk.path = os.getenv("WRK_PATH")
wrk.headers["Authorization"] = "Bearer " .. os.getenv("SLATEBERG_API_KEY")
local etag = os.getenv("WRK_ETAG")
if etag and etag ~= "" then
  wrk.headers["If-None-Match"] = etag
end
