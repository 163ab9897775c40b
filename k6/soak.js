// The requests of `mixed` at a constant rate for a long time, to find leaks, and values that grow
// or get slower.

import { open } from './lib/options.js';
import { iteration, setup, teardown } from './lib/mixed.js';

export const options = open(Number(__ENV.LOAD_RATE || 100), Number(__ENV.LOAD_SECONDS || 3600));
export { setup, teardown };
export default iteration;
