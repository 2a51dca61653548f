// What scripts add to a page that works without them.
import { complete } from "./complete.js";
import { copy } from "./copy.js";
import { keys } from "./keys.js";
import { live } from "./live.js";
import { searchYaml } from "./yaml.js";

complete();
copy();
keys();
live(() => { copy(); searchYaml(); });
searchYaml();
