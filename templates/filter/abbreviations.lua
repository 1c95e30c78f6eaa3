--- Words whose full stop ends no sentence: pandoc joins them to what follows by a space that does not
--- break. It reads them from a file of its own when it converts by itself.

local words = [[
aet. aetat. al. Apr. Aug. bk. Bros. c. Capt. cf. ch. chap. chs. Co. col. Corp. cp. d. Dec. Dr. e.g.
ed. eds. esp. f. fasc. Feb. ff. fig. fl. fol. fols. Fr. Gen. Gov. Hon. i.e. ill. Inc. incl. Jan. Jr.
Jul. Jun. Ltd. M.A. M.D. Mar. Mr. Mrs. Ms. n. n.b. nn. No. Nov. Oct. p. Ph.D. pp. Pres. Prof. pt.
q.v. Rep. Rev. s.v. s.vv. saec. sec. Sen. Sep. Sept. Sgt. Sr. St. univ. viz. vol. vs.
]]

local abbreviations = {}
for word in words:gmatch("%S+") do
  abbreviations[word] = true
end

return abbreviations
