-- wrk: commits a property to one table. The server may combine concurrent commits into one version.

wrk.method = "POST"
wrk.path = os.getenv("WRK_PATH")
wrk.headers["Authorization"] = "Bearer " .. os.getenv("SLATEBERG_API_KEY")
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"requirements":[],"updates":[{"action":"set-properties","updates":{"wrk":"1"}}]}'
