"use strict";
/* What the scripts of a page share: its colours, and whether its ground is dark. */
const headscope = {
  /* cmocean's ice, dark to light: the scale of every heat map. */
  ice: [
    [3, 5, 18], [25, 25, 51], [44, 42, 87], [58, 60, 125], [62, 83, 160], [62, 109, 178],
    [72, 134, 187], [89, 159, 196], [114, 184, 205], [149, 207, 216], [192, 229, 232],
    [234, 252, 253],
  ],

  dark: window.matchMedia("(prefers-color-scheme: dark)"),

  /* The value of a CSS custom property, such as "--ink". */
  css(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  },

  /* Colour of a value from 0 to 1: much is dark on a light ground and light on a dark one. */
  colour(value) {
    const place = (headscope.dark.matches ? value : 1 - value) * (headscope.ice.length - 1);
    const low = Math.min(Math.floor(place), headscope.ice.length - 2);
    const mixed = headscope.ice[low].map((part, channel) =>
      Math.round(part + (headscope.ice[low + 1][channel] - part) * (place - low)));
    return `rgb(${mixed.join(", ")})`;
  },

  /* Three decimals, as everywhere on the page. */
  number(value) {
    return value.toFixed(3);
  },

  /* Set by explorer.js, if the page has one: shows a head at work on a sentence. */
  open: null,
};
