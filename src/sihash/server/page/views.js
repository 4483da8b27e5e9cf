// The views, in the order of the navigation.
//
// To add a view, write a module that exports `view` and put it into the list below; nothing else knows the views.
//
//   export const view = {
//     name: "doctor",            // its address is #doctor, its section #view-doctor
//     title: "Doctor",           // of its link
//     setUp(section) { … },      // once, before anything was asked of the service
//     setInfo(info) { … },       // at the start and after every change; `info` is the answer of /v1/info
//     show(parameters) { … },    // optional: it is shown now; `parameters` are those in the address
//   };
//
// The section may be written in index.html, as those of most; where it is not, an empty one is made, with the
// title as its hidden heading, and `setUp` fills it (see `h` in dom.js; `.card`, `.stack` and `.quiet` in style.css).
// What a view asks for takes time: say so meanwhile, and let `setInfo` ask only for what is cheap.

import { view as collection } from "./collection.js";
import { view as doctor } from "./doctor.js";
import { view as learning } from "./learning.js";
import { view as map } from "./map.js";
import { view as quality } from "./quality.js";
import { view as search } from "./search.js";

export const VIEWS = [search, map, collection, learning, quality, doctor];
