// The requests of `mixed`, LOAD_ITERATIONS times, while the members of a cluster are replaced. No request may fail.

import { CLIENTS } from './lib/options.js';
import { iteration, setup, teardown } from './lib/mixed.js';

export const options = {
  scenarios: {
    load: {
      executor: 'shared-iterations',
      vus: CLIENTS,
      iterations: Number(__ENV.LOAD_ITERATIONS || 20000),
      maxDuration: '2h',
    },
  },
  thresholds: { checks: ['rate==1'], http_req_failed: ['rate==0'] },
  summaryTrendStats: ['med', 'p(90)', 'p(99)', 'max', 'count'],
};
export { setup, teardown };
export default iteration;
