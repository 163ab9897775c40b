// The mixed load at a steady rate, for as long as one likes: whether anything grows, leaks or gets slower.

import { open } from './lib/options.js';
import { iteration, setup, teardown } from './lib/mixed.js';

export const options = open(Number(__ENV.LOAD_RATE || 100), Number(__ENV.LOAD_SECONDS || 3600));
export { setup, teardown };
export default iteration;
