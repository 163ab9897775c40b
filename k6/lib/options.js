// The size and duration of the load, from environment variables, and the objectives that a run has
// to meet.

const SECONDS = Number(__ENV.LOAD_SECONDS || 30);
export const CLIENTS = Number(__ENV.LOAD_CLIENTS || 10);

// Fewer than 0.1 % of the requests fail, and the 99th percentile is below 50 ms for reads and below
// 200 ms for writes. LOAD_FACTOR multiplies these times, for machines where k6 and the server share
// the cores.
const FACTOR = Number(__ENV.LOAD_FACTOR || 1);
const OBJECTIVES = {
  checks: ['rate>0.999'],
  http_req_failed: ['rate<0.001'],
  'http_req_duration{kind:read}': [`p(99)<${50 * FACTOR}`],
  'http_req_duration{kind:write}': [`p(99)<${200 * FACTOR}`],
};

// Load by CLIENTS concurrent clients. Each client sends its next request as soon as it gets a
// response.
export function closed() {
  return {
    scenarios: {
      load: {
        executor: 'constant-vus',
        vus: CLIENTS,
        duration: `${SECONDS}s`,
        gracefulStop: '10s',
      },
    },
    thresholds: OBJECTIVES,
    summaryTrendStats: ['med', 'p(90)', 'p(99)', 'max', 'count'],
    setupTimeout: '120s',
    teardownTimeout: '120s',
  };
}

// Load at a constant rate, independent of the responses. The time of a request that has to wait
// counts.
export function open(rate, seconds) {
  const options = closed();
  options.scenarios = {
    load: {
      executor: 'constant-arrival-rate',
      rate,
      timeUnit: '1s',
      duration: `${seconds}s`,
      preAllocatedVUs: 20,
      maxVUs: 200,
    },
  };
  options.thresholds = { ...OBJECTIVES, dropped_iterations: ['count<1'] };
  return options;
}
