// Clients read, commit, and create and drop tables, all at the same time.

import { closed } from './lib/options.js';
import { iteration, setup, teardown } from './lib/mixed.js';

export const options = closed();
export { setup, teardown };
export default iteration;
