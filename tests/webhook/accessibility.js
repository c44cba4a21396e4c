// What trips up readers of a page, by WCAG 2.2 AA as far as a program can tell: returns a list of faults.
(() => {
  const faults = [];
  const say = (rule, node) => faults.push(`${rule}: ${node ? (node.outerHTML ?? node.textContent).slice(0, 120) : ""}`);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (node) => node.checkVisibility({ visibilityProperty: true }) && !node.closest(".unseen, [aria-hidden=true], title, desc");
  const named = (node) => {
    const ids = node.getAttribute("aria-labelledby");
    const text = ids ? ids.split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ") : "";
    return (text || node.getAttribute("aria-label") || "").trim();
  };

  // The document: 3.1.1, 2.4.2, 4.1.2, 1.3.1.
  if (document.documentElement.lang !== "en") say("lang");
  if (!document.title.trim()) say("title");
  const ids = all("[id]").map((node) => node.id);
  ids.filter((id, place) => ids.indexOf(id) !== place).forEach((id) => say("id", document.getElementById(id)));
  for (const landmark of ["body > header", "body > main", "body > footer", "h1"]) if (all(landmark).length !== 1) say(`one ${landmark}`);
  for (const node of document.body.children) if (!node.matches("header, main, footer, [aria-hidden=true]")) say("landmark", node);
  for (const node of all("section, article, nav, [role=region]")) if (!named(node)) say("name", node);
  let level = 0;
  for (const node of all("h1, h2, h3, h4, h5, h6")) {
    if (Number(node.tagName[1]) > level + 1 || !node.textContent.trim()) say("heading", node);
    level = Number(node.tagName[1]);
  }

  // Tables: 1.3.1.
  for (const table of all("table")) {
    if (!table.caption && !table.closest("[role=region]")) say("table name", table);
    for (const head of table.querySelectorAll("th")) if (!head.scope || !head.textContent.trim()) say("table header", head);
    for (const row of table.tBodies[0].rows) if (!row.querySelector("th, [colspan]")) say("row header", row);
  }
  // A bar repeats the figure beside it, so it is hidden from screen readers: 1.1.1, 1.4.1.
  for (const picture of all("svg")) {
    if (picture.getAttribute("aria-hidden") !== "true") say("picture name", picture);
    if (!/\d %/.test(picture.parentElement.textContent)) say("bar without a figure", picture);
  }

  // Controls: 2.1.1, 2.4.4, 2.5.8.
  for (const node of all("a, summary")) {
    if (!node.textContent.trim()) say("link text", node);
    if (!node.closest("p") && shown(node) && node.getBoundingClientRect().height < 24) say("target", node);
  }
  for (const node of all("body *")) {
    if (shown(node) && ["auto", "scroll"].includes(getComputedStyle(node).overflowX) && (node.tabIndex < 0 || !named(node))) say("scrolls", node);
  }

  // Contrast: 1.4.3, 1.4.11.
  const parse = (text) => {
    const [red, green, blue, alpha] = text.match(/[\d.]+/g).map(Number);
    return { rgb: [red, green, blue], alpha: alpha ?? 1 };
  };
  const over = (top, below) => top.rgb.map((each, place) => each * top.alpha + below[place] * (1 - top.alpha));
  const background = (node) => {
    if (!node) return [255, 255, 255];
    const own = parse(getComputedStyle(node).backgroundColor);
    return own.alpha === 1 ? own.rgb : over(own, background(node.parentElement));
  };
  const luminance = (rgb) => {
    const [red, green, blue] = rgb.map((each) => each / 255).map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !shown(node)) continue;
    texts += 1;
    const style = getComputedStyle(node);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    const behind = background(node);
    const colour = over(parse(node.ownerSVGElement ? style.fill : style.color), behind);
    const found = contrast(colour, behind);
    if (found < (large ? 3 : 4.5)) say(`contrast ${found.toFixed(2)}`, node);
  }
  if (texts < 20) say("texts");
  for (const node of all("svg.bar rect")) {
    if (contrast(parse(getComputedStyle(node).fill).rgb, background(node.closest("section"))) < 3) say("graphic contrast", node);
  }

  // Reflow: 1.4.10. What scrolls by itself may be wider than the page; the page may not.
  if (document.documentElement.scrollWidth > innerWidth) say(`page as wide as ${document.documentElement.scrollWidth}`);
  for (const node of all("body *")) {
    if (shown(node) && !node.closest(".wide") && node.getBoundingClientRect().right > innerWidth + 1) say("outside", node);
  }
  return faults;
})()
