// Reads, commits, and tables that come and go, all at once.

import { closed } from './lib/options.js';
import { iteration, setup, teardown } from './lib/mixed.js';

export const options = closed();
export { setup, teardown };
export default iteration;
