// How hard and how long, out of the environment, and the objectives that a run has to keep.

const SECONDS = Number(__ENV.LOAD_SECONDS || 30);
export const CLIENTS = Number(__ENV.LOAD_CLIENTS || 10);

// Errors below 0.1 %, reads below 50 ms and writes below 200 ms for 99 of 100. LOAD_FACTOR loosens the times on machines
// where the load takes the server's cores.
const FACTOR = Number(__ENV.LOAD_FACTOR || 1);
const OBJECTIVES = {
  checks: ['rate>0.999'],
  http_req_failed: ['rate<0.001'],
  'http_req_duration{kind:read}': [`p(99)<${50 * FACTOR}`],
  'http_req_duration{kind:write}': [`p(99)<${200 * FACTOR}`],
};

// Load by so many clients at once, each as fast as it is answered.
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

// Load at a rate, whether it is answered or not: what waits is counted as slow.
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
